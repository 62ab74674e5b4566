package crashtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.temporal.io/sdk/client"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/observe/axiom/axiomtest"
	"github.com/millrace/millrace/trials/crashtest"
	"github.com/millrace/millrace/trials/stack"
	"github.com/millrace/millrace/workflows"
)

// What goes wrong on a whole service is told within 30 s by its API, `millrace status`, `millrace top` and the page, in
// one line with what to do, and not any more when it is over.
func TestConditionsAreToldByEveryFace(t *testing.T) {
	if os.Getenv("MILLRACE_CONDITIONS") == "" {
		t.Skip("takes minutes: make test-conditions runs it")
	}
	var cfg crashtest.Config
	programs(t, &cfg)
	dir := t.TempDir()
	disk := filepath.Join(dir, "redis") // small, so that it can be filled
	if err := errors.Join(os.Mkdir(disk, 0o755), syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64m")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	s := startWatched(t, cfg, dir)
	for _, c := range conditions {
		t.Run(c.name, func(t *testing.T) {
			s.T = t
			s.until(30*time.Second, "all is well before", s.well)
			end := sync.OnceFunc(c.begin(s))
			defer end()
			began := time.Now()
			s.until(max(c.within, 30*time.Second), c.line, func() error { return s.told(c) })
			t.Logf("told after %.0f s", time.Since(began).Seconds())
			end()
			s.until(2*time.Minute, "all is well after", s.well)
		})
	}
}

// condition is something that goes wrong, and how it is told.
type condition struct {
	name   string
	level  diagnosis.Severity
	line   string                        // in its only line, or in what to do
	within time.Duration                 // more than 30 s, where it is a silence of that long
	begin  func(s *watched) (end func()) // makes it true, and not any more
}

const stuck, slow, note = diagnosis.SeverityStuck, diagnosis.SeveritySlow, diagnosis.SeverityNote

var conditions = []condition{
	{"no worker", stuck, "no worker is alive", 0, func(s *watched) func() { return s.freeze("worker-0") }},
	{"an engine is away", slow, "engine engine-0: lost", 0, func(s *watched) func() { return s.freeze("engine-0") }},
	{"all engines are", stuck, "engine-1: lost", 0, func(s *watched) func() {
		first, second := s.freeze("engine-0"), s.freeze("engine-1")
		return func() { first(); second() }
	}},
	{"an engine answers and completes nothing", slow, "engine engine-0: quarantined", time.Minute,
		func(s *watched) func() {
			heal := s.fault(0, `{"kind":"status","status":500,"path":"/v1/completions"}`)
			end := s.start("many", "buffer: {depth: 8, groups_per_step: 4}")
			return func() { heal(); end() }
		}},
	{"an engine takes no adapters", slow, "engine plain: no run's adapter can be served", 0, func(s *watched) func() {
		s.addEngine("plain", "--runtime-lora=false")
		return func() { s.millrace("engine", "remove", "plain"); s.End("plain") }
	}},
	{"a model that nobody serves", stuck, "model nobody/has-it is served by no engine", 0, func(s *watched) func() {
		return s.start("elsewhere", "model: nobody/has-it")
	}},
	{"every game fails", stuck, "every game fails: ", 0, func(s *watched) func() { // engines are well
		return s.start("refused", fmt.Sprintf("environment: {kind: prompts, dataset: %s, template: \"{question}\"}",
			filepath.Join(s.dir, "rows-that-are-not-there.jsonl")))
	}},
	{"a version is rejected", stuck, "policy version 1 was rejected", 0, func(s *watched) func() {
		end := s.start("published", "")
		path := filepath.Join(s.dir, "adapters", "nothing")
		_, err := s.client.Ask(s.Context(), http.MethodPut, "/v1/runs/published/policies/1", map[string]string{"path": path})
		s.must(err)
		return end
	}},
	{"the trainer is silent", stuck, "was not heard of", 2 * time.Minute, func(s *watched) func() {
		end := s.start("trained", "")
		s.must(s.Spawn("trainer", true, s.cfg.Millrace, "trainer", "demo", "trained", "--server", "http://"+s.Server,
			"--speed", "60"))
		s.until(time.Minute, "the trainer has completed two steps", func() error {
			run, _, err := apiclient.Get[api.RunView](s.Context(), s.client, "/v1/runs/trained")
			if err == nil && run.NextStep < 2 {
				err = fmt.Errorf("the trainer is at step %d", run.NextStep)
			}
			return err
		})
		thaw := s.freeze("trainer")
		return func() { s.End("trainer"); thaw(); end() }
	}},
	{"a run loses its time", slow, "millrace diagnose hasty", 90 * time.Second, func(s *watched) func() {
		end := s.start("hasty", "")
		s.must(s.Spawn("hasty-trainer", true, s.cfg.Millrace, "trainer", "demo", "hasty", "--server", "http://"+s.Server,
			"--speed", "10000"))
		return func() { s.End("hasty-trainer"); end() }
	}},
	{"a run is lost", stuck, "lost at step", time.Minute, func(s *watched) func() {
		end := s.start("forgotten", "")
		s.must(s.temporal.TerminateWorkflow(s.Context(), workflows.Deployment("millrace").RunID("forgotten"), "", "by hand"))
		return end
	}},
	{"a run failed", stuck, "failed at step", 0, func(s *watched) func() {
		return s.start("wrong", fmt.Sprintf("policies: [{name: rival, path: %s}]", filepath.Join(s.dir, "adapters", "none")))
	}},
	{"Redis keeps nothing", slow, "nothing is saved: a restart loses everything", 0, func(s *watched) func() {
		set := func(appendonly, save string) {
			s.must(errors.Join(s.redis.ConfigSet(s.Context(), "appendonly", appendonly).Err(),
				s.redis.ConfigSet(s.Context(), "save", save).Err()))
		}
		set("no", "")
		return func() { set("yes", "") }
	}},
	{"Redis does not answer", stuck, "Redis does not answer", 0, func(s *watched) func() { return s.freeze("redis") }},
	{"the disk of Redis is full", stuck, "No space left on device", 0, func(s *watched) func() {
		full := filepath.Join(s.dir, "redis", "other")
		for room := 1 << 20; room > 0; room /= 2 { // to the last byte: Redis stops at once
			for s.grow(full, room) == nil {
			}
		}
		return func() { s.must(os.Remove(full)) }
	}},
	{"Temporal does not answer", stuck, "Temporal does not answer", 0, func(s *watched) func() {
		return s.freeze("temporal")
	}},
	{"Axiom refuses the token", slow, "events are not delivered to axiom", time.Minute, func(s *watched) func() {
		s.axiom.Store(http.StatusForbidden)
		end := s.start("told", "")
		return func() { s.axiom.Store(0); end() }
	}},
	{"Axiom does not answer", note, "events are not delivered to axiom", 2 * time.Minute, func(s *watched) func() {
		s.axiom.Store(http.StatusServiceUnavailable)
		end := s.start("told-later", "")
		return func() { s.axiom.Store(0); end() }
	}},
	{"the provider fails", slow, "provider exec: ", 0, func(s *watched) func() {
		out, list := filepath.Join(s.dir, "quota"), filepath.Join(s.dir, "list.sh")
		s.must(os.WriteFile(list, fmt.Appendf(nil, "#!/bin/sh\ntest ! -e %s || { echo no quota >&2; exit 1; }\necho '[]'\n",
			out), 0o755))
		s.must(os.WriteFile(out, nil, 0o600))
		var err error
		s.Server, err = s.Deploy(s.Context(), "scaled-", fmt.Sprintf("redis: {prefix: scaled}\n"+
			"temporal: {task_queue_prefix: scaled}\n"+
			"scaling: {provider: exec, min: 0, max: 1, exec: {start: %[1]s, stop: %[1]s, list: %[1]s}}\n", list), 1)
		s.must(err)
		s.client, err = s.Client()
		s.must(err)
		return func() { s.must(os.Remove(out)) }
	}}, // from here on: the others are of the first deployment
	{"the budget is spent", slow, "the fleet should be larger than 1 engine:", 5 * time.Minute, func(s *watched) func() {
		buy := filepath.Join(s.dir, "buy.sh")
		s.must(os.WriteFile(buy, []byte("#!/bin/sh\necho '[]'\n"), 0o755))
		var err error
		s.Server, err = s.Deploy(s.Context(), "paid-", fmt.Sprintf("redis: {prefix: paid}\n"+
			"temporal: {task_queue_prefix: paid}\n"+
			"scaling: {provider: exec, max: 4, price: 1, budget_per_hour: 1, exec: {start: %[1]s, stop: %[1]s, list: %[1]s}}\n",
			buy), 1)
		s.must(err)
		s.client, err = s.Client()
		s.must(err)
		end := s.start("hungry", "slow_share: 1") // what it loses is another condition
		s.addEngine("small", "--max-num-seqs", "1")
		s.must(s.Spawn("hungry-trainer", true, s.cfg.Millrace, "trainer", "demo", "hungry", "--server", "http://"+s.Server,
			"--speed", "100"))
		return func() { s.End("hungry-trainer"); end() }
	}},
}

// watched is a whole service with a run that nobody trains, and an Axiom that may refuse.
type watched struct {
	*stack.Stack
	*testing.T // of the condition that is tried
	cfg        crashtest.Config
	dir        string
	client     *apiclient.Client
	temporal   client.Client
	redis      *redis.Client
	axiom      *atomic.Int32 // what it answers; 0: as it should
}

func startWatched(t *testing.T, cfg crashtest.Config, dir string) *watched {
	t.Helper()
	s := &watched{T: t, cfg: cfg, dir: dir, axiom: new(atomic.Int32)}
	fake := &axiomtest.Server{}
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := s.axiom.Load(); status != 0 {
			http.Error(w, `{"message":"not now"}`, int(status))
			return
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(sink.Close)
	t.Setenv("AXIOM_TOKEN", "xaat-conditions")
	service := fmt.Sprintf("worker: {games: 64}\naxiom: {dataset: conditions, url: %s}\n", sink.URL)
	var err error
	s.Stack, err = stack.Start(t.Context(), stack.Config{Programs: cfg.Programs, Dir: s.dir, Service: service, Workers: 1,
		Fsync: "everysec", Engines: 2, EngineArgs: []string{"--speed", "20", "--faults", "--max-loras", "32"},
		Log: t.Output()})
	s.must(err)
	t.Cleanup(s.Stop)
	s.client, err = s.Client()
	s.must(err)
	s.temporal, err = client.NewLazyClient(client.Options{HostPort: s.Temporal})
	s.must(err)
	t.Cleanup(s.temporal.Close)
	s.redis = redis.NewClient(&redis.Options{Addr: s.Redis})
	t.Cleanup(func() { _ = s.redis.Close() })
	s.start("going", "")
	return s
}

func (s *watched) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *watched) until(patience time.Duration, what string, holds func() error) {
	s.Helper()
	if err := stack.Await(s.Context(), patience, func(context.Context) error { return holds() }); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// millrace runs the command line against the service, and answers what it prints, on one line.
func (s *watched) millrace(args ...string) string {
	out, _ := exec.CommandContext(s.Context(), s.cfg.Millrace, append(args, "--server", "http://"+s.Server)...).
		CombinedOutput()
	return strings.Join(strings.Fields(string(out)), " ")
}

// start starts a small run whose spec has one key more or another, and answers what ends and forgets it.
func (s *watched) start(name, key string) func() {
	s.Helper()
	keys := []string{"name: " + name, "model: Qwen/Qwen2.5-7B-Instruct", "steps: 10000",
		"environment: {kind: tictactoe, opening_moves: 1}", "group: {samples: 4, min_samples: 3}",
		"buffer: {depth: 2, groups_per_step: 4}", "sampling: {temperature: 1.0, max_tokens: 4}",
		"timeouts: {completion: 20s, episode: 2m, heartbeat: 10s}",
		fmt.Sprintf("adapters: {path_prefix: %s/adapters}", s.dir)}
	var spec strings.Builder
	for _, line := range append(keys, key) {
		if word, _, _ := strings.Cut(line, ":"); line == key || word != strings.SplitN(key, ":", 2)[0] {
			spec.WriteString(line + "\n")
		}
	}
	file := filepath.Join(s.dir, name+".yaml")
	s.must(os.WriteFile(file, []byte(spec.String()), 0o600))
	if out := s.millrace("run", "start", "-f", file); !strings.Contains(out, name) || strings.Contains(out, "millrace: ") {
		s.Fatalf("start %s: %s", name, out)
	}
	return func() { s.millrace("run", "delete", name, "--force") }
}

// grow makes a file longer.
func (s *watched) grow(path string, by int) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	s.must(err)
	_, err = f.Write(make([]byte, by))
	return errors.Join(err, f.Close())
}

// addEngine starts an engine with flags of its own, and adds it to the fleet.
func (s *watched) addEngine(name string, flags ...string) {
	s.Helper()
	address, err := freeport.Address()
	s.must(err)
	_, port, _ := strings.Cut(address, ":")
	s.must(s.Spawn(name, false, s.cfg.Millrace, append([]string{"engine", "simulate", "--port", port}, flags...)...))
	s.until(20*time.Second, "the engine is added", func() error {
		_, _, err := s.client.AddEngine(s.Context(), name, "http://"+address, 0)
		return err
	})
}

// freeze stops a process, and answers what lets it go on.
func (s *watched) freeze(name string) func() {
	s.Helper()
	pid := s.PID(name)
	s.must(syscall.Kill(pid, syscall.SIGSTOP))
	return func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
}

// fault makes an engine misbehave, and answers what ends that.
func (s *watched) fault(engine int, body string) func() {
	s.Helper()
	send := func(method string) error {
		req, err := http.NewRequestWithContext(s.Context(), method, "http://"+s.Engines[engine]+"/sim/faults",
			strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := s.HTTP.Do(req)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusNoContent {
			err = errors.New(resp.Status)
		}
		return errors.Join(err, resp.Body.Close())
	}
	s.must(send(http.MethodPost))
	return func() { s.must(send(http.MethodDelete)) }
}

// status is what the API says.
func (s *watched) status() (status api.DeploymentStatus, err error) {
	status, _, err = apiclient.Get[api.DeploymentStatus](s.Context(), s.client, "/v1/status")
	return status, err
}

func (s *watched) well() error {
	status, err := s.status()
	if err == nil && len(status.Problems) > 0 {
		text, _ := json.Marshal(status.Problems)
		err = errors.New(string(text))
	}
	return err
}

var tags = regexp.MustCompile(`<[^>]*>`)

// page is the text of the first page.
func (s *watched) page() (string, error) {
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://"+s.Server+"/", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Accept", "text/html")
	resp, err := s.HTTP.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(string(text), " "))), " "), err
}

// told reports what of a condition is not told as it should be.
func (s *watched) told(c condition) error {
	status, err := s.status()
	if err != nil {
		return err
	}
	var lines []api.Trouble
	for _, p := range status.Problems {
		if strings.Contains(p.What+" "+p.Advice, c.line) {
			lines = append(lines, p)
		}
	}
	if len(lines) != 1 || lines[0].Level != c.level || lines[0].Advice == "" {
		return fmt.Errorf("the API has %+v of %+v", lines, status.Problems)
	}
	if len(status.Problems) > 1 {
		return fmt.Errorf("one cause in %d lines: %+v", len(status.Problems), status.Problems)
	}
	page, err := s.page()
	if err != nil {
		return err
	}
	for face, text := range map[string]string{"status": s.millrace("status"), "the page": page} {
		if strings.Count(text, c.line) != 1 {
			return fmt.Errorf("%s does not say %q once: %s", face, c.line, text)
		}
	}
	top := s.millrace("top", "--once")
	if level := string(c.level); !strings.Contains(top, level+": ") && !strings.Contains(top, strings.ToUpper(level)) &&
		!strings.Contains(top, c.line) && !strings.Contains(c.name, "run ") {
		return fmt.Errorf("top says nothing %s: %s", level, top)
	}
	return nil
}
