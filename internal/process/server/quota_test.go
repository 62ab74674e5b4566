package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
)

// store is the buffer of a served API, as workers would fill it.
func (s *served) store() *buffer.Store {
	s.t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.redis.Addr()})
	s.t.Cleanup(func() { _ = rdb.Close() })
	return buffer.New(rdb, buffer.Options{Prefix: "millrace", RetainSteps: 1000, Now: time.Now})
}

func smallSpec(name rollout.RunName) runspec.Spec {
	spec := spec.Default()
	spec.Name, spec.Model, spec.Steps = name, "m", 1000
	spec.Environment = runspec.Environment{Kind: tictactoe.Kind}
	spec.Group.Samples, spec.Group.MinSamples = 1, 1
	spec.Buffer.Depth, spec.Buffer.GroupsPerStep, spec.Buffer.Prefill, spec.Buffer.OnStale = 2, 1, runspec.PrefillBatch,
		runspec.KeepStale
	return spec
}

// open makes a run known that is running.
func (s *served) open(store *buffer.Store, name rollout.RunName, change ...func(*runspec.Spec)) runspec.Spec {
	s.t.Helper()
	spec := smallSpec(name)
	for _, c := range change {
		c(&spec)
	}
	if err := store.Open(s.t.Context(), spec); err != nil {
		s.t.Fatal(err)
	}
	if err := store.SaveStatus(s.t.Context(), runstatus.RunStatus{Spec: spec, State: runstatus.RunRunning,
		StartedAt: time.Now()}, 0); err != nil {
		s.t.Fatal(err)
	}
	return spec
}

// grant forms the batch of a step.
func (s *served) grant(store *buffer.Store, run rollout.RunName, step int) {
	s.t.Helper()
	s.ready(store, run, step)
	if _, err := store.ClaimRaw(s.t.Context(), run, rollout.Step(step), 0, buffer.Share{}); err != nil {
		s.t.Fatal(err)
	}
}

// ready commits the one group of a step.
func (s *served) ready(store *buffer.Store, run rollout.RunName, step int) {
	s.t.Helper()
	ctx := s.t.Context()
	ref := rollout.GroupRef{Run: run, Seq: rollout.GroupSeq(step)}
	at := time.Now()
	group := &rollout.Group{Ref: ref, Samples: 1, Times: rollout.GroupTimes{LaunchedAt: at, StartedAt: at, ReadyAt: at},
		EpisodeSec: []float64{1}, ModelSec: []float64{1}, QueueSec: []float64{0}, EnvSec: []float64{0},
		Trajectories: []rollout.Trajectory{{ID: rollout.EpisodeRef{GroupRef: ref}.TrajectoryID("X"), Agent: "X",
			Turns: []rollout.Turn{
				{Phase: "1", PromptTokenIDs: []int32{1}, TokenIDs: []int32{2}, Logprobs: []float32{-1}, Engine: "e",
					FinishReason: "stop", Text: "a"},
			}}}}
	if _, err := store.Queue(ctx, ref, []byte("s"), 0, at); err != nil {
		s.t.Fatal(err)
	}
	if err := store.Start(ctx, ref); err != nil {
		s.t.Fatal(err)
	}
	if _, err := store.CommitGroup(ctx, group); err != nil {
		s.t.Fatal(err)
	}
}

// TestStepRecordsAreBounded: one record has a bounded size, and one answer too, even of the records of a version
// that had no bound.
func TestStepRecordsAreBounded(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("writes and reads 40 MB of figures, one request after another")
	}
	s := serveAPI(t, "", nil)
	store := s.store()
	s.open(store, "records")
	metrics := map[string]float64{}
	for i := range 15_000 {
		metrics[fmt.Sprintf("a-figure-with-a-name-of-some-length-%05d", i)] = 1.25
	}
	const steps = 40
	for step := range steps {
		s.grant(store, "records", step)
		report := steprecord.StepReport{WallSec: 1, Metrics: metrics}
		if _, _, err := store.Complete(t.Context(), "records", rollout.Step(step), 0, report,
			steprecord.FleetView{}); err != nil {
			t.Fatal(err)
		}
	}
	var seen []rollout.Step
	from := rollout.Step(0)
	for {
		got := s.want(http.StatusOK, "GET", fmt.Sprintf("/v1/runs/records/steps?limit=1000&from=%d", from), "", "")
		if len(got.body) > 20<<20 {
			t.Errorf("one answer of %d MB", len(got.body)>>20)
		}
		var page struct {
			Steps []struct{ Step rollout.Step }
			Next  *rollout.Step
		}
		if err := json.Unmarshal([]byte(got.body), &page); err != nil {
			t.Fatal(err)
		}
		for _, record := range page.Steps {
			seen = append(seen, record.Step)
		}
		if page.Next == nil {
			break
		}
		from = *page.Next
	}
	for i, step := range seen {
		if int(step) != i || len(seen) != steps {
			t.Fatalf("the pages hold %v; want each step once", seen)
		}
	}

	s.grant(store, "records", steps)
	put := func(status int, metrics map[string]float64) response {
		body, err := json.Marshal(map[string]any{"wall_seconds": 1, "metrics": metrics})
		if err != nil {
			t.Fatal(err)
		}
		return s.want(status, "PUT", fmt.Sprintf("/v1/runs/records/steps/%d", steps), "", string(body))
	}
	few := map[string]float64{}
	for i := range 400 {
		few[fmt.Sprintf("%0100d", i)] = 1
	}
	if refused := put(http.StatusUnprocessableEntity, few); !strings.Contains(refused.body, "limits.step_metrics_bytes") {
		t.Errorf("the refusal does not say which key raises the bound: %s", refused.body)
	}
	put(http.StatusUnprocessableEntity, metrics)
	put(http.StatusCreated, map[string]float64{"loss": 1})
}

// TestWhatEveryGameCarriesIsBounded: a spec's size is multiplied by the run's games, in Temporal and in every
// worker, and its fixed policies by the engines.
func TestWhatEveryGameCarriesIsBounded(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, "", nil)
	spec := func(options, policies string) string {
		return "name: large\nmodel: m\nsteps: 5\nenvironment: {kind: diplomacy" + options +
			"}\npolicies: [" + policies + "]\n"
	}
	template := `, prompt: {chat_template: "` + strings.Repeat("x ", 20_000) + `{user}"}`
	got := s.want(http.StatusUnprocessableEntity, "POST", "/v1/runs", "", spec(template, ""))
	if !strings.Contains(got.body, "8192") || !strings.Contains(got.body, "prompt.chat_template") {
		t.Errorf("large options: %s", got.body)
	}
	var policies []string
	for i := range 1000 {
		policies = append(policies, fmt.Sprintf("{name: p%d, path: /adapters/p%d}", i, i))
	}
	got = s.want(http.StatusUnprocessableEntity, "POST", "/v1/runs", "", spec("", strings.Join(policies, ", ")))
	if !strings.Contains(got.body, "1000 policies") || !strings.Contains(got.body, "64") {
		t.Errorf("many policies: %s", got.body)
	}
}

// TestQuotasNameWhatRaisesThem: the value, the bound, the key; and nothing is left of what was refused.
func TestQuotasNameWhatRaisesThem(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, "limits: {runs: 2, games_per_run: 100, engines: 1}\n", nil)
	store := s.store()
	s.open(store, "one")
	spec := func(name string, depth, groups, samples int) string {
		return fmt.Sprintf("name: %s\nmodel: m\nsteps: 5\nenvironment: {kind: tictactoe}\ngroup: {samples: %d}\nbuffer: "+
			"{depth: %d, groups_per_step: %d}\n",
			name, samples, depth, groups)
	}
	quota := func(got response, says ...string) {
		t.Helper()
		for _, text := range append(says, "urn:millrace:problem:quota-exceeded") {
			if !strings.Contains(got.body, text) {
				t.Errorf("the refusal does not say %q: %s", text, got.body)
			}
		}
	}
	quota(s.want(http.StatusTooManyRequests, "POST", "/v1/runs", "", spec("large", 1, 1500, 1024)), "1536000", "100",
		"limits.games_per_run")
	quota(s.want(http.StatusTooManyRequests, "PATCH", "/v1/runs/one", "", `{"group":{"samples":60},"buffer":{"depth":4}}`), "240",
		"limits.games_per_run")
	s.open(store, "one-eval-v1-random", func(r *runspec.Spec) { r.Evaluation.Run = "one" })
	if got, err := s.call("POST", "/v1/runs", "", spec("three", 1, 1, 1)); err != nil ||
		got.status == http.StatusTooManyRequests {
		t.Errorf("an evaluation takes a training run's place: %v, %s", err, got.body)
	}
	s.open(store, "two")
	quota(s.want(http.StatusTooManyRequests, "POST", "/v1/runs", "", spec("three", 1, 1, 1)), "2", "limits.runs")
	quota(s.want(http.StatusTooManyRequests, "POST", "/v1/runs/one/evaluations", "",
		`{"version":0,"against":"random","games":8}`), "3", "limits.runs")
	s.want(http.StatusNotFound, "GET", "/v1/runs/three", "", "")
	s.want(http.StatusOK, "PUT", "/v1/engines/a", "", `{"url":"http://127.0.0.1:1"}`)
	quota(s.want(http.StatusTooManyRequests, "PUT", "/v1/engines/b", "", `{"url":"http://127.0.0.1:2"}`), "limits.engines")

	metrics := s.want(http.StatusOK, "GET", "/metrics", "", "").body
	if !strings.Contains(metrics, `millrace_refused_total{reason="quota-exceeded"} 5`) {
		t.Error("the refusals are not counted")
	}
}

// TestEvaluationsAreListedOfDeletedRunsAlone: those of others are shown with their runs.
func TestEvaluationsAreListedOfDeletedRunsAlone(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, "", nil)
	store := s.store()
	s.open(store, "one")
	for _, of := range []rollout.RunName{"one", "gone"} {
		s.open(store, of+"-eval-v1-random", func(r *runspec.Spec) { r.Evaluation.Run = of })
	}
	got := s.want(http.StatusOK, "GET", "/v1/runs", "", "").body
	if !strings.Contains(got, `"gone-eval-v1-random"`) || strings.Contains(got, `"one-eval-v1-random"`) {
		t.Errorf("the list is %s", got)
	}
}

// TestStrangersWhoHoldConnectionsKeepNobodyOut: more of them than the server may have open, silent or in the middle of
// a request whose body never comes, and a client with a token is answered.
func TestStrangersWhoHoldConnectionsKeepNobodyOut(t *testing.T) {
	for name, sent := range map[string]string{
		"silent":               "",
		"half a header":        "GET /healthz HTTP/1.1\r\nHost:",
		"no body for health":   "POST /healthz HTTP/1.1\r\nHost: millrace\r\nContent-Length: 1000\r\n\r\n",
		"no body for a run":    "POST /v1/runs HTTP/1.1\r\nHost: millrace\r\nContent-Length: 1000\r\n\r\n",
		"no body for a log-in": "POST /login HTTP/1.1\r\nHost: millrace\r\nContent-Length: 1000\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) { strangersHoldConnections(t, sent) })
	}
}

func strangersHoldConnections(t *testing.T, sent string) {
	t.Parallel()
	const token = "a-token-of-this-test"
	s := serveAPI(t, "limits: {connections: 40, connections_per_address: 20}\n",
		map[string]string{"MILLRACE_TOKENS": token})
	address := strings.TrimPrefix(s.url, "http://")
	for range 100 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, sent) // the server may have closed it for the next
	}
	for range 5 {
		s.want(http.StatusOK, "GET", "/v1/runs", token, "")
		s.http.CloseIdleConnections()
	}
	if got := s.want(http.StatusOK, "GET", "/metrics", token, "").body; !strings.Contains(got,
		`millrace_refused_total{reason="connections"}`) {
		t.Error("the connections that were closed are not counted")
	}
}

// TestManyWithoutATokenAreToldToWait: first 401, then 429 with Retry-After; who has a token is served from the same
// address.
func TestManyWithoutATokenAreToldToWait(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-this-test"
	s := serveAPI(t, "", map[string]string{"MILLRACE_TOKENS": token})
	s.want(http.StatusUnauthorized, "GET", "/v1/runs", "not-a-token-of-this-test", "")
	s.until("a stranger is told to wait", func() bool {
		got, err := s.call("GET", "/v1/runs", "not-a-token-of-this-test", "")
		return err == nil && got.status == http.StatusTooManyRequests && got.header.Get("Retry-After") != ""
	})
	s.want(http.StatusOK, "GET", "/v1/runs", token, "")
	s.want(http.StatusOK, "GET", "/healthz", "", "")
	if !strings.Contains(s.log.String(), "client=127.0.0.1") {
		t.Error("the log does not say where refused requests came from")
	}
}

// TestStreamsAndWaitingClaimsAreBounded: those beyond the bound are told to come again, and one run leaves room for
// another.
func TestStreamsAndWaitingClaimsAreBounded(t *testing.T) {
	t.Parallel()
	s := serveAPI(t, "limits: {streams: 8, waiting_claims: 8}\n", nil)
	store := s.store()
	s.open(store, "one")
	s.open(store, "two")
	address := strings.TrimPrefix(s.url, "http://")
	// hold sends a request whose answer takes long, and answers its status line, or nothing while there is none.
	hold := func(method, path, header string) *bufio.Reader {
		t.Helper()
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", method, path, address, header)
		return bufio.NewReader(c)
	}
	for range 6 {
		line, err := hold("GET", "/v1/runs/one/events", "Accept: text/event-stream\r\n").ReadString('\n')
		if err != nil || !strings.Contains(line, "200") {
			t.Fatalf("a stream within the bound: %q, %v", line, err)
		}
	}
	stream := func(run string) int {
		req, err := http.NewRequest("GET", s.url+"/v1/runs/"+run+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		resp, err := s.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if got := stream("one"); got != http.StatusTooManyRequests {
		t.Errorf("a stream more of one run: %d", got)
	}
	if got := stream("two"); got != http.StatusOK {
		t.Errorf("a stream of another run: %d", got)
	}

	wait := func() { hold("POST", "/v1/runs/one/steps/0/claim?wait=60", "Content-Length: 0\r\n") }
	for range 6 {
		wait()
	}
	s.until("a claim more of one run is told to come again", func() bool {
		got, err := s.call("POST", "/v1/runs/one/steps/0/claim?wait=0.01", "", "")
		if err == nil && got.status == http.StatusTooManyRequests && got.header.Get("Retry-After") != "" {
			return true
		}
		wait() // this one may have had the place of one that was to wait
		return false
	})
	s.want(http.StatusNoContent, "POST", "/v1/runs/two/steps/0/claim?wait=0.01", "", "")
}
