# Millrace: `make run` plays real games end to end, `make test` proves that it works. `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

BIN := .bin
# A temporal on the PATH is taken as it is; otherwise the pinned one is built here, once.
TEMPORAL := $(or $(shell command -v temporal 2>/dev/null),$(CURDIR)/$(BIN)/temporal)
export MILLRACE_TEMPORAL := $(TEMPORAL)

.PHONY: help
help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: run
run: ## all set-up, then a run of real games with simulated engines: 60 to 120 s
	@echo "make run: real games on this machine, 60 to 120 s: Temporal, Redis, simulated engines, server, worker and demo trainer"
	@[ -x $(BIN)/millrace ] || echo "first, once: build millrace (1 to 2 minutes on two cores)"
	@[ -x $(TEMPORAL) ] || echo "first, once: build the Temporal CLI, since none is on the PATH (3 to 6 minutes on two cores)"
	@$(MAKE) --no-print-directory build temporal
	@$(BIN)/millrace dev --exit --spec config/examples/seed-004.yaml

.PHONY: dev
dev: build $(TEMPORAL) ## the same services, staying up until Ctrl-C
	@$(BIN)/millrace dev

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT := $(shell git rev-parse HEAD 2>/dev/null)$(if $(shell git status --porcelain --untracked-files=no 2>/dev/null),+changes)
COMMIT_DATE := $(shell TZ=UTC0 git log -1 --date=iso-strict-local --format=%cd 2>/dev/null | sed 's/+00:00$$/Z/')
LDFLAGS = -X github.com/millrace/millrace/internal/kit/version.released=$(VERSION) \
	-X github.com/millrace/millrace/internal/kit/version.commit=$(COMMIT) -X github.com/millrace/millrace/internal/kit/version.date=$(COMMIT_DATE)

# Both builds say how far they are. Nothing is said of what lies built in Go's cache.
progress = 2>&1 | awk '/^go: downloading/ {d++; if (d % 25 == 0) {printf "  %d modules downloaded\n", d; fflush()}; next} \
	/^[a-zA-Z0-9._-]+(\/|$$)/ && !/ / {p++; if (p % 100 == 0) {printf "  %d of at most $(1) packages compiled, now %s\n", p, $$0; fflush()}; next} \
	{print; fflush()}'

.PHONY: build
build: ## build the binary, .bin/millrace
	@mkdir -p $(BIN)
	@echo "building $(BIN)/millrace"
	@go build -v -ldflags "$(LDFLAGS)" -o $(BIN)/millrace ./cmd/millrace $(call progress,600)

# What develops, breaks and measures Millrace is a module of its own, with a binary of its own: docs/trials.md.
LAB := $(BIN)/millrace-lab
.PHONY: lab
lab: build ## build the binaries .bin/millrace and .bin/millrace-lab, which tries the first one
	@echo "building $(LAB)"
	@go build -C trials -v -o $(CURDIR)/$(LAB) ./cmd/millrace-lab $(call progress,700)

.PHONY: temporal
temporal: $(TEMPORAL) ## build the pinned Temporal CLI, unless one is on the PATH
	@:

$(CURDIR)/$(BIN)/temporal: deploy/tools/temporal/go.mod
	@mkdir -p $(BIN)
	@echo "building the pinned Temporal CLI, $(BIN)/temporal"
	@go build -C deploy/tools/temporal -v -o $@ github.com/temporalio/cli/cmd/temporal $(call progress,1300)
	@touch $@

# An API server of Kubernetes, pinned; 5 minutes of processor time and 2.4 GB for kube-apiserver's link, once.
KUBERNETES := $(CURDIR)/$(BIN)/kubernetes
KUBERNETES_VERSION = $(shell awk '$$1 == "k8s.io/kubernetes" {print $$2}' deploy/tools/kubernetes/go.mod)
$(KUBERNETES)/%: deploy/tools/kubernetes/go.mod
	@mkdir -p $(KUBERNETES)
	@echo "building the pinned $*, $@ (once; kube-apiserver takes 3 to 10 minutes on two cores)"
	@CGO_ENABLED=0 go build -C deploy/tools/kubernetes -v \
		-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$(KUBERNETES_VERSION)" \
		-o $@ $(if $(filter etcd,$*),go.etcd.io/etcd/server/v3,k8s.io/kubernetes/cmd/$*) $(call progress,1500)
	@touch $@

.PHONY: kubernetes
kubernetes: $(KUBERNETES)/etcd $(KUBERNETES)/kube-apiserver $(KUBERNETES)/kubectl ## build etcd, kube-apiserver and kubectl, pinned, into .bin/kubernetes
	@:

# Runs a command beside a real API server, with KUBECONFIG of an administrator.
APISERVER = go run -C trials ./kubernetes/apiserver -binaries $(KUBERNETES)
.PHONY: test-kubernetes
test-kubernetes: kubernetes ## the provider of Kubernetes pods against a real API server with RBAC, an outage of a minute included (three minutes)
	$(APISERVER) go test -C $(CURDIR) ./internal/scaling/provider/kubernetes -run RealAPIServer -count=1 -v -timeout 15m

.PHONY: test-chart-pods
test-chart-pods: build $(CHECK)/helm $(TEMPORAL) ## the chart's pods run in the throw-away cluster of KUBECONFIG, such as one of kind: which has IMAGE:VERSION; HOST=this machine as its pods see it (redis-server; ten minutes)
	@HELM=$(CHECK)/helm MILLRACE=$(CURDIR)/$(BIN)/millrace TEMPORAL=$(TEMPORAL) IMAGE=$(IMAGE):$(VERSION) HOST=$(HOST) deploy/helm/walk.sh

.PHONY: kubernetes-dry-run
kubernetes-dry-run: kubernetes ## have a real API server check FILES="a.yaml b.yaml" (server-side dry run); CRDS=files are applied before
	@$(APISERVER) sh -c 'cd $(CURDIR) && $(if $(CRDS),kubectl apply --server-side $(CRDS:%=-f %) && kubectl wait --for=condition=Established --timeout=60s $(CRDS:%=-f %) &&) kubectl apply --server-side --dry-run=server $(FILES:%=-f %)'

.PHONY: experiments
experiments: lab ## run all experiments on batching and scheduling (minutes) and write their reports below .millrace/experiments
	@$(LAB) experiment

.PHONY: diagnosis-suite
diagnosis-suite: ## try diagnosis on some 500 runs with known faults (minutes) and write the score into .millrace/diagnosis-suite.md
	@go run -C trials ./diagnosis/faultsuite/faultscore -live diagnosis/livefaults/testdata -page $(CURDIR)/.millrace/diagnosis-suite.md

.PHONY: diagnosis-live
diagnosis-live: build $(TEMPORAL) ## record the runs with known faults on the whole service again (half an hour); ONLY=names of some
	@go run -C trials ./diagnosis/livefaults -millrace $(CURDIR)/$(BIN)/millrace $(if $(ONLY),-only '$(ONLY)')

.PHONY: scaling-trials
scaling-trials: ## try the scaling policies on 260 random runs in virtual time (some 20 minutes of processor time) and write the tables and figures of trials/scaling/results.md
	@mkdir -p trials/.millrace
	@go run -C trials ./scaling/scalingtrials -page scaling/results.md -figure scaling/scaling.svg -sums scaling/scaling-sums.svg

.PHONY: off-policy
off-policy: ## reward against steps and time at buffer depths 1, 2 and 4: a table, and the figure of docs/learning.md (minutes)
	@go run -C trials ./offpolicy -figure offpolicy/off-policy.svg

# Tests are linked without tables for a debugger, in three quarters of the time. Those that mostly wait, for processes
# that start and end, come first, and three packages at once, or two processors stand idle at the end. Vet is lint's.
LINK = -ldflags=-w
WAITING_FIRST = ./worker ./workflows ./cmd/millrace ./internal/process/server
.PHONY: test
test: $(TEMPORAL) ## all tests, a real Temporal dev server included; real Redis too when redis-server is on the PATH
	@command -v redis-server >/dev/null || echo "redis-server is not on the PATH: the real-Redis tests will be skipped (Debian: apt-get install redis-server)"
	go test $(LINK) -p 3 -timeout 30m -vet=off $(WAITING_FIRST) ./...
	go test -C trials $(LINK) -p 3 -timeout 30m -vet=off ./...
	@echo "the rules of Diplomacy, as checked (docs/diplomacy-rules.md):"
	@go test -v -run '^Test(DATC|LegalOrdersEqualOracle|ReplayRealGames)$$' ./internal/game/diplomacy | \
		sed -nE 's/^ +[a-z]+_test\.go:[0-9]+: (DATC|legal orders|replayed|runs on)/  \1/p'

DOCS = ./cmd/millrace ./config ./internal/face/api ./internal/observe/prom ./internal/rollout/spec ./internal/rollout/telemetry ./internal/simulate/sim
.PHONY: docs
docs: ## write the tables of docs/ that are made from the code, and the schemas
	@go test $(DOCS) -run 'Page|Schema' -update

CHECK := $(CURDIR)/$(BIN)/check
.PHONY: test-times
test-times: $(TEMPORAL) $(CHECK)/gotestsum ## all tests, and a table of the time that each took, slowest first, in .millrace/test-times.txt
	@mkdir -p .millrace
	@for module in . trials; do go test -C $$module -json -count=1 -timeout 30m ./...; done >.millrace/tests.json || true
	@$(CHECK)/gotestsum tool slowest --threshold 1ms --jsonfile .millrace/tests.json >.millrace/test-times.txt
	@head -30 .millrace/test-times.txt

$(CHECK)/%: deploy/tools/check/go.mod
	@mkdir -p $(CHECK)
	@go build -C deploy/tools/check -o $(CHECK)/ honnef.co/go/tools/cmd/staticcheck gotest.tools/gotestsum \
		go.temporal.io/sdk/contrib/tools/workflowcheck github.com/alecthomas/go-check-sumtype/cmd/go-check-sumtype

.PHONY: check
check: lint race ## everything that must hold before a commit: lint, then the tests under the race detector

.PHONY: lint
lint: $(CHECK)/staticcheck $(CHECK)/workflowcheck $(CHECK)/go-check-sumtype ## gofmt, vet, staticcheck, workflowcheck, go-check-sumtype
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "not gofmt'ed: $$unformatted"; exit 1; fi
	go vet ./...
	go vet -C trials ./...
	$(CHECK)/staticcheck ./...
	cd trials && $(CHECK)/staticcheck ./...
	$(CHECK)/workflowcheck ./workflows/...
	$(CHECK)/go-check-sumtype -default-signifies-exhaustive=false ./...
	cd trials && $(CHECK)/go-check-sumtype -default-signifies-exhaustive=false ./...

RUFF := 0.17.6
.PHONY: lint-python
lint-python: ## ruff over the Python files; it is installed from PyPI, once, and without PyPI left out
	@ruff=$(CHECK)/ruff-$(RUFF); if [ ! -x $$ruff/bin/ruff ]; then \
		{ $(or $(PYTHON),python3) -m venv $$ruff && $$ruff/bin/pip install -q --retries 1 ruff==$(RUFF); } || { rm -rf $$ruff; \
			echo "ruff $(RUFF) cannot be installed: it needs PyPI, and Python with venv (Debian: apt-get install python3-venv)"; \
			echo "the Python files are not linted"; exit 0; }; fi; \
	$$ruff/bin/ruff check --no-cache --config clients/python/pyproject.toml clients deploy examples

.PHONY: figures
figures: ## how large Millrace is, beside its budgets: lines, words, dependencies, the binary
	@deploy/figures.sh

DIST := dist
.PHONY: release
release: ## tarballs for Linux and macOS, checksums and SBOMs in dist/, the same bytes wherever they are made; VERSION=v1.2.3
	@[ -n "$(COMMIT_DATE)" ] || { echo "make release builds a commit: this is no Git checkout"; exit 1; }
	@case "$(COMMIT)" in *+changes) echo "make release builds a commit: commit your changes first"; exit 1;; esac
	@go build -C deploy/tools/release -o $(CURDIR)/$(BIN)/release .
	@$(BIN)/release -out $(DIST) -version "$(VERSION)" -commit "$(COMMIT)" -date "$(COMMIT_DATE)" $(if $(PLATFORMS),-platforms $(PLATFORMS))
	@cd $(DIST) && sha256sum -c checksums.txt

.PHONY: test-release
test-release: ## build a release twice, in two folders with nothing shared, and compare every byte (10 minutes on two cores)
	@deploy/release/compare.sh

CONTAINER := docker
IMAGE := millrace
.PHONY: image
image: ## the container image, IMAGE:VERSION, with docker or CONTAINER=podman or buildah
	$(CONTAINER) build -f deploy/docker/Dockerfile -t $(IMAGE):$(VERSION) \
	  --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) --build-arg COMMIT_DATE=$(COMMIT_DATE) .

.PHONY: helm
helm: $(CHECK)/helm ## build the pinned helm, .bin/check/helm (3 minutes, once)
	@:

# The versions of Kubernetes that helm renders for where no cluster says its own.
HELM_KUBE := -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34 \
	-X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=34
$(CHECK)/helm: deploy/tools/deploy/go.mod
	@mkdir -p $(CHECK)
	@echo "building the pinned helm, $@"
	@go build -C deploy/tools/deploy -ldflags "$(HELM_KUBE)" -o $@ helm.sh/helm/v3/cmd/helm

.PHONY: test-chart
test-chart: build $(CHECK)/helm ## a real API server takes what the chart renders (builds it, once: ten minutes)
	@deploy/helm/check.sh

.PHONY: chart-rendered
chart-rendered: $(CHECK)/helm ## write deploy/helm/rendered, which tests without helm read, after a change of the chart
	@deploy/helm/render.sh

.PHONY: test-deploy
test-deploy: build ## what deploy/ has for compose, Helm and systemd, held to their own rules (needs modules; 3 minutes, once)
	@MILLRACE_BINARY=$(CURDIR)/$(BIN)/millrace go test -C deploy/tools/deploy -count=1 ./...
	@go test -C deploy/tools/release -count=1 ./...
	@deploy/systemd/verify.sh

# Without service discoveries, which need most of its modules.
$(CHECK)/promtool: deploy/tools/prometheus/go.mod
	@mkdir -p $(CHECK)
	@echo "building the pinned promtool, $@ (1 to 3 minutes, once)"
	@go build -C deploy/tools/prometheus -tags remove_all_sd -o $@ github.com/prometheus/prometheus/cmd/promtool

.PHONY: test-rules
test-rules: $(CHECK)/promtool ## promtool's checks of deploy/prometheus, and when each alert fires
	@$(CHECK)/promtool check rules deploy/prometheus/*.yaml
	@$(CHECK)/promtool test rules deploy/prometheus/tests/*.test.yaml

# Packages in which goroutines meet, by their own code. The Kubernetes provider's tests would have the Kubernetes client
# built once more for a cache with one lock; simulations are seconds of arithmetic in one goroutine each.
MEETS = ^\s+go (func|[a-z])|sync\.(Mutex|RWMutex|Map|Cond|WaitGroup|Pool)|\batomic\.
RACING = $(shell grep -rlE --include='*.go' --exclude='*_test.go' '$(MEETS)' activities cmd config internal worker workflows | \
	xargs -n1 dirname | sort -u | grep -vE '/kubernetes|simulate/(plan|engineprofile|setup|sim)' | sed 's,^,./,')
.PHONY: race
race: $(TEMPORAL) ## the tests, less of some, of packages in which goroutines meet, under the race detector (needs a C compiler); vet is lint's
	@deploy/race.sh go test -race -short -vet=off $(LINK) -p 3 -timeout 30m $(WAITING_FIRST) $(RACING)

.PHONY: conformance
conformance: $(if $(ENGINE),,build $(TEMPORAL)) ## the engine contract: against ENGINE=URL, or against a vLLM for CPUs made here (docs/conformance.md)
	@deploy/conformance/run.sh $(ENGINE)

.PHONY: conformance-saturation
conformance-saturation: build $(TEMPORAL) ## a saturated vLLM for CPUs: what diagnose predicts against what more engines and more depth then give (root, Linux)
	@deploy/conformance/saturation.sh

.PHONY: learn
learn: build $(TEMPORAL) ## does a policy learn through the whole chain? a real vLLM, LoRA, seeds and controls; 20 minutes (docs/learning.md)
	@examples/grpo/learn.sh

.PHONY: python-torch
python-torch: ## the Python client's tests that need torch, xgrammar and peft, in PYTHON (.bin/vllm/bin/python, as make learn installs it)
	@cd clients/python && $(or $(PYTHON),$(CURDIR)/.bin/vllm/bin/python) -B -m unittest test_millrace_torch test_millrace_rows \
		test_grpo_example

.PHONY: bench
bench: ## benchmarks; each prints its own ratio or allocation count
	go test -run '^$$' -bench . -benchmem ./...

SECONDS := 600
SEED := 0
.PHONY: chaos
chaos: lab $(TEMPORAL) ## kill, stop and cut every part for SECONDS=600 and check that nothing was lost; SEED=n repeats a schedule, ONLY=stale-redis,kill-server some faults, REDIS=sentinel or cluster has failovers, SHAPE=external or openenv has games played outside, PATIENCE=3 times the bounds
	@$(LAB) chaos --seconds $(SECONDS) --seed $(SEED) $(if $(SCHEDULE),--schedule $(SCHEDULE)) $(if $(ONLY),--only $(ONLY)) $(if $(REDIS),--redis $(REDIS)) $(if $(SHAPE),--shape $(SHAPE)) $(if $(PATIENCE),--patience $(PATIENCE))

.PHONY: bench-ended
bench-ended: build $(TEMPORAL) ## what 5,000 runs that are over cost an idle server, worker and Redis: four minutes
	MILLRACE_ENDED_RUNS=5000 MILLRACE_BINARY=$(abspath $(BIN))/millrace MILLRACE_TEMPORAL=$(TEMPORAL) \
	  go test -C trials ./bench/serving -run TestWhatEndedRunsCost -count=1 -v -timeout 15m

.PHONY: bench-watchers
bench-watchers: build $(TEMPORAL) ## what 50 browsers and 200 idle streams cost the server, and what claims take beside them: four minutes
	MILLRACE_WATCHERS=1 MILLRACE_BINARY=$(abspath $(BIN))/millrace MILLRACE_TEMPORAL=$(TEMPORAL) \
	  go test -C trials ./bench/serving -run TestWhatWatchersCost -count=1 -v -timeout 15m

.PHONY: bench-programs
bench-programs: build $(TEMPORAL) ## what a program's call costs beside the engine's own, nginx (apt-get install nginx-light) and rLLM's gateway (GATEWAY=command), and 5,000 leases: three minutes
	MILLRACE_CALLS=1 MILLRACE_GATEWAY=$(GATEWAY) MILLRACE_BINARY=$(abspath $(BIN))/millrace MILLRACE_TEMPORAL=$(TEMPORAL) \
	  go test -C trials ./bench/serving -run TestWhatCallsOfProgramsCost -count=1 -v -timeout 15m

.PHONY: bench-page
bench-page: ## how long the page of a run of 10,000 steps takes (95th percentile) and how large it is
	go test ./internal/face/web -run '^$$' -bench RunPageOf10000Steps -benchtime 200x

.PHONY: pageshots
pageshots: build $(TEMPORAL) ## take the pictures of docs/page.md anew, of runs that are played for it (needs Chromium; five minutes)
	@go run -C trials ./pageshots -millrace $(CURDIR)/$(BIN)/millrace -out $(CURDIR)/docs/pages

.PHONY: test-scaling-faults
test-scaling-faults: $(TEMPORAL) ## engines are bought and given back while every part is killed, all workers in the middle of a purchase (a minute or two)
	MILLRACE_SCALING_FAULTS=1 go test -C trials ./crashtest -run TestEnginesAreBoughtOnce -count=1 -v -timeout 15m

.PHONY: chaos-scaling
chaos-scaling: ## like chaos, of a fleet that scales: engines die as they start, serve and drain, providers fail
	@$(MAKE) --no-print-directory chaos SCHEDULE=scaling

.PHONY: test-redis-faults
test-redis-faults: $(TEMPORAL) ## a minute each of a Redis that comes back older, of failovers, of slots that move, and of nodes that are stopped
	MILLRACE_REDIS_FAULTS=1 go test -C trials ./crashtest -run 'OlderAgain|Failovers|SlotsMove|Bounded|RedisForgot'

.PHONY: test-conditions
test-conditions: $(TEMPORAL) ## what goes wrong is told by status, top, API and page within 30 s, and no more when it is over (ten minutes; root, Linux)
	MILLRACE_CONDITIONS=1 go test -C trials $(LINK) ./crashtest -run ConditionsAreTold -v -timeout 30m

.PHONY: test-healthy
test-healthy: $(TEMPORAL) ## runs of three shapes that are well, for FOR=1h: no face ever says that anything needs somebody
	MILLRACE_HEALTHY=$(or $(FOR),1h) go test -C trials $(LINK) ./crashtest -run HealthyRuns -v -timeout 0

OLD = $(shell git tag --list 'v*' --sort=-version:refname | head -n 1)
.PHONY: test-rolling
test-rolling: $(TEMPORAL) ## roll a run over from an earlier version (OLD=commit; the newest release, if not given) and back
	@test -n "$(OLD)" || { echo "there is no release yet: name a commit with OLD=" >&2; exit 1; }
	@rm -rf .millrace/old && mkdir -p .millrace/old/source
	git archive $(OLD) | tar x -C .millrace/old/source
	cd .millrace/old/source && go build -o ../millrace ./cmd/millrace
	rm -rf .millrace/old/source
	MILLRACE_OLD=$(CURDIR)/.millrace/old/millrace go test -C trials ./crashtest -run RollingOver -v -count=1

.PHONY: chaos-names
chaos-names: ## the same with what happens to workflows, names, versions and a second deployment
	@$(MAKE) --no-print-directory chaos SCHEDULE=names SECONDS=$(SECONDS) SEED=$(SEED)

.PHONY: bench-restart
bench-restart: lab $(TEMPORAL) ## restart one of two saturated workers and measure what the engines feel of it (2 minutes)
	@$(LAB) bench restart

.PHONY: isolation
isolation: lab $(TEMPORAL) ## measure what a healthy run feels of others that misbehave; ONLY=names of some disturbances
	@$(LAB) isolation $(if $(ONLY),--only $(ONLY))

.PHONY: predict
predict: lab $(TEMPORAL) ## play examples live, predict their variants from one record each, and compare; ONLY=names of some, RECORDED=1 compares again
	@$(LAB) predict --records .millrace/predict $(if $(ONLY),--only $(ONLY)) $(if $(RECORDED),--recorded)

TRACKERS := $(BIN)/trackers
.PHONY: test-trackers
test-trackers: build $(TEMPORAL) ## the Python client with the real W&B (offline), TensorBoard and MLflow: trains, kills, reads back (2 minutes; installs them below .bin)
	@deploy/trackers/check.sh $(TRACKERS) $(BIN)/millrace

.PHONY: with
with: build $(TEMPORAL) ## another project's package, unchanged and pinned, with a Millrace of its own: PEER=gymnasium, pettingzoo, ... (docs/with)
	@examples/with/with.sh $(PEER)

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN) .millrace
