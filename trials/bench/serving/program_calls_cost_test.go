package serving

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/game/external"
	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/processortime"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/mailbox"
	"github.com/millrace/millrace/trials/bench/benchservice"
	"github.com/millrace/millrace/trials/stack"
)

const (
	callers    = 64 // at once
	callTurns  = 3
	openLeases = 5000
)

// calling is a service with an instant engine in this process, and clients of it.
type calling struct {
	*benchservice.Service
	t      *testing.T
	client *http.Client
	calls  int           // of each caller in a turn
	after  time.Duration // that an engine answers
}

// TestWhatCallsOfProgramsCost measures what a program's call takes beside the same call of the engine, and beside one
// through nginx and through rLLM's gateway where there are such, by turns; and what leases cost a server: `make bench-programs`.
func TestWhatCallsOfProgramsCost(t *testing.T) {
	if os.Getenv("MILLRACE_CALLS") == "" {
		t.Skip("takes minutes; run it with `make bench-programs`")
	}
	redis, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("needs redis-server")
	}
	for name, tt := range map[string]struct {
		after time.Duration
		calls int
	}{"engines at once, so that the machine is full": {0, 40}, "engines after half a second": {time.Second / 2, 10}} {
		t.Run(name, func(t *testing.T) {
			s, err := benchservice.Start(t.Context(), benchservice.Config{
				Programs: stack.Programs{Millrace: os.Getenv("MILLRACE_BINARY"), Temporal: os.Getenv("MILLRACE_TEMPORAL"),
					Redis: redis}, Dir: t.TempDir(), Games: callers, Claims: openLeases, After: tt.after,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Stop)
			c := &calling{s, t, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: openLeases}}, tt.calls,
				tt.after}
			t.Logf("machine: %v, load %s", processortime.ThisMachine(), processortime.Load())
			c.measureCalls()
			if tt.after == 0 {
				c.measureLeases()
			}
		})
	}
}

// spec is of a run of that many games that programs play.
func (c *calling) spec(name rollout.RunName, games int) runspec.Spec {
	spec := c.Spec(name, benchservice.PhasesPerYear, 1, games)
	spec.Environment = runspec.Environment{Kind: external.Kind, Options: json.RawMessage(`{"max_calls": 10000}`)}
	return spec
}

// measureCalls has all callers call in three ways, one after the other.
func (c *calling) measureCalls() {
	if err := c.API.StartRun(c.t.Context(), c.spec("called", callers)); err != nil {
		c.t.Fatal(err)
	}
	games := make([]leased, callers)
	for i := range games {
		games[i] = c.lease("called")
	}
	engine := c.Fleet()[0].URL + "/v1/completions"
	ways := []way{{name: "direct", url: func(int) (string, string) { return engine, "" }}}
	ways = append(ways, append(c.nginx(engine), c.gateway(engine)...)...)
	ways = append(ways, way{name: "program", url: func(i int) (string, string) {
		return games[i].URL + "/v1/completions", games[i].Key
	}, processes: func() map[string]int {
		return map[string]int{"server": c.PID("server"), "worker": c.PID("worker-0"), "redis": c.PID("redis")}
	}})
	for turn := range callTurns + 1 {
		for i := range ways {
			if turn == 0 {
				ways[i].cpu = map[string]float64{}
			}
			c.turn(&ways[i], turn)
			if turn == 0 { // connections and caches are warm
				ways[i].took, ways[i].cpu = nil, map[string]float64{}
			}
		}
	}
	direct := ways[0].took
	for _, w := range ways {
		c.t.Logf("%-8s p50 %6.2f ms, p99 %6.2f ms, added %6.2f and %6.2f; processor time a call in ms: %v", w.name,
			quantile(w.took, 0.5), quantile(w.took, 0.99), quantile(w.took, 0.5)-quantile(direct, 0.5),
			quantile(w.took, 0.99)-quantile(direct, 0.99), w.cpu)
	}
}

// way is how a call comes to an engine.
type way struct {
	name      string
	url       func(caller int) (url, key string)
	processes func() map[string]int // between
	took      []float64             // ms
	cpu       map[string]float64    // of each process, ms a call
}

func (c *calling) turn(w *way, turn int) {
	used := func(sign float64) {
		if w.processes == nil {
			return
		}
		for name, pid := range w.processes() {
			sec, err := processortime.Of(pid)
			if err != nil {
				c.t.Fatal(err)
			}
			w.cpu[name] += sign * sec * 1e3 / float64(callers*c.calls*callTurns)
		}
	}
	used(-1)
	var mu sync.Mutex
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			url, key := w.url(caller)
			_ = retry.Pause(c.t.Context(), c.after*time.Duration(caller)/callers) // callers are not in step
			for call := range c.calls {
				prompt := strings.Repeat("A prompt that is about as long as prompts are. ", 40)
				began := time.Now()
				status, answer := c.post(url, key, map[string]any{"model": benchservice.Model, "max_tokens": 16,
					"prompt": fmt.Sprintf("%s%d %d %d", prompt, turn, caller, call)})
				took := time.Since(began).Seconds() * 1e3
				if status != http.StatusOK {
					c.t.Errorf("%s: %d %.200s", w.name, status, answer)
					return
				}
				mu.Lock()
				w.took = append(w.took, took)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	used(1)
}

func (c *calling) post(url, key string, body any) (status int, answer []byte) {
	text, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer resp.Body.Close()
	answer, _ = io.ReadAll(resp.Body) // a short one is no answer
	return resp.StatusCode, answer
}

type leased struct {
	URL string `json:"base_url"`
	Key string `json:"api_key"`
}

func (c *calling) lease(run string) (game leased) {
	err := retry.Within(c.t.Context(), time.Minute, 0, func(context.Context) error {
		status, answer := c.post("http://"+c.Server+"/v1/runs/"+run+"/episodes/lease?wait=30s", "", struct{}{})
		if status != http.StatusOK {
			return fmt.Errorf("lease: %d %s", status, answer)
		}
		return json.Unmarshal(answer, &game)
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return game
}

// nginx starts one before the engine, if there is one to start.
func (c *calling) nginx(engine string) []way {
	binary, err := exec.LookPath("nginx")
	if err != nil {
		c.t.Log("without nginx; Debian has it: apt-get install nginx-light")
		return nil
	}
	dir := c.t.TempDir()
	file := filepath.Join(dir, "nginx.conf")
	host, path, _ := strings.Cut(strings.TrimPrefix(engine, "http://"), "/")
	address := c.freeAddress()
	if err := os.WriteFile(file, fmt.Appendf(nil, `daemon off; master_process off; pid %s/pid; error_log %[1]s/error;
events { worker_connections 4096; }
http {
  access_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f;
  uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  upstream engine { server %[2]s; keepalive 256; }
  server {
    listen %[3]s;
    location / { proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
`, dir, host, address), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return c.proxied("nginx", func(int) string { return "http://" + address + "/" + path },
		exec.CommandContext(c.t.Context(), binary, "-c", file, "-e", filepath.Join(dir, "error")))
}

// gateway starts rLLM's before the engine, which captures calls as Millrace does, if MILLRACE_GATEWAY is its command.
func (c *calling) gateway(engine string) []way {
	binary := os.Getenv("MILLRACE_GATEWAY")
	if binary == "" {
		return nil
	}
	address := c.freeAddress()
	host, port, _ := strings.Cut(address, ":")
	return c.proxied("gateway", func(caller int) string {
		return fmt.Sprintf("http://%s/sessions/s%d/v1/completions", address, caller)
	}, exec.CommandContext(c.t.Context(), binary, "--host", host, "--port", port, "--log-level", "error", "--db-path",
		filepath.Join(c.t.TempDir(), "traces.db"), "--worker", strings.TrimSuffix(engine, "/completions")))
}

// proxied starts a process that passes calls on, and waits until it does.
func (c *calling) proxied(name string, url func(caller int) string, cmd *exec.Cmd) []way {
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	if err := retry.Within(c.t.Context(), 10*time.Second, 100*time.Millisecond, func(context.Context) error {
		status, answer := c.post(url(0), "", map[string]any{"model": benchservice.Model, "prompt": "x"})
		if status != http.StatusOK {
			return fmt.Errorf("%s: %d %s", name, status, answer)
		}
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
	return []way{{name: name, url: func(caller int) (string, string) { return url(caller), "" },
		processes: func() map[string]int { return map[string]int{name: cmd.Process.Pid} }}}
}

func (c *calling) freeAddress() string {
	address, err := freeport.Address()
	if err != nil {
		c.t.Fatal(err)
	}
	return address
}

// measureLeases opens many games by hand, without a worker, leases them all, and has a call wait in each.
func (c *calling) measureLeases() {
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	spec := c.spec("leased", 1)
	if err := c.Buffer.Open(ctx, spec); err != nil {
		c.t.Fatal(err)
	}
	box := mailbox.New(c.Redis, "")
	look := func() {
		for i := range openLeases {
			ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: spec.Name, Seq: rollout.GroupSeq(i)}}
			if _, err := box.Look(ctx, external.Attempt{EpisodeRef: ref}, []byte(`{"seed": 1}`)); err != nil && ctx.Err() == nil {
				c.t.Error(err)
			}
		}
	}
	look()
	var looking, calls sync.WaitGroup
	looking.Go(func() {
		for ctx.Err() == nil {
			look()
			_ = retry.Pause(ctx, 5*time.Second)
		}
	})
	alone := residentMiB(c.t, c.PID("server"))
	games := make([]leased, openLeases)
	for i := range games {
		games[i] = c.lease(string(spec.Name))
	}
	idle := residentMiB(c.t, c.PID("server"))
	for _, game := range games {
		calls.Go(func() {
			c.post(game.URL+"/v1/completions", game.Key, map[string]any{"model": benchservice.Model, "prompt": "x"})
		})
	}
	memory := []float64{}
	for range 10 {
		_ = retry.Pause(ctx, 3*time.Second)
		memory = append(memory, residentMiB(c.t, c.PID("server")))
	}
	c.t.Logf("%d leases: the server has %.0f MiB before, %.0f when all are leased, %.0f at most while each has a call",
		openLeases, alone, idle, slices.Max(memory))
	cancel()
	c.client.CloseIdleConnections()
	looking.Wait()
	c.End("server") // and the calls with it
	calls.Wait()
}
