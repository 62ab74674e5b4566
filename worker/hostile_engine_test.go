package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/badenginetest"
	"github.com/millrace/millrace/internal/process/server"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/enginesim"
	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

// TestServerProcess is an API server in a process of its own when another test starts this binary as one.
func TestServerProcess(t *testing.T) {
	cfg := startedWith(t, "MILLRACE_TEST_SERVER")
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	if err := server.Run(ctx, cfg, "test", slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
		t.Fatal(err)
	}
}

// server starts a second API server of the deployment, in a process of its own, and answers its address and process.
func (d *deployment) server() (address string, pid int) {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, "service.yaml"))
	if err != nil {
		d.t.Fatal(err)
	}
	address = freeAddress(d.t)
	d.write("server.yaml", strings.Replace(string(text), d.cfg.Listen, address, 1))
	cmd := exec.CommandContext(d.ctx, os.Args[0], "-test.run=^TestServerProcess$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), "MILLRACE_TEST_SERVER="+filepath.Join(d.dir, "server.yaml"))
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // says that it was killed
	})
	d.until("the second API server", func() error {
		resp, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
	return address, cmd.Process.Pid
}

// villains are hostile engines that take every behaviour of package hostile in turn, and count those that games met.
type villains struct {
	behaviours []badenginetest.Behaviour
	tried      []atomic.Int64 // by games
	next       atomic.Int64
	games      atomic.Int64
}

// ofGame reports whether a request is a turn of a game; canaries have short names.
func ofGame(r *http.Request) bool { return strings.Count(r.Header.Get("X-Request-Id"), "/") >= 5 }

// engine starts an engine that answers the requests badly for which bad says so, each in the next bad way.
func (v *villains) engine(d *deployment, bad func(*http.Request) bool) (url string) {
	d.t.Helper()
	cfg := enginesim.DefaultConfig()
	cfg.Speed = 8
	sim, err := enginesim.New(cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	d.while("a hostile engine", sim.Run)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/completions" || !bad(r) {
			sim.Handler().ServeHTTP(w, r)
			return
		}
		i := rand.IntN(len(v.behaviours)) // of canaries
		if ofGame(r) {
			i = int(v.next.Add(1)-1) % len(v.behaviours)
			v.tried[i].Add(1)
		}
		v.behaviours[i].Engine(sim.Handler(), func(*http.Request) bool { return true }).ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that break
	server.Config.BaseContext = func(net.Listener) context.Context { return d.ctx }
	server.Start()
	d.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// untried are the behaviours that no game has met yet.
func (v *villains) untried() (names []string) {
	for i := range v.tried {
		if v.tried[i].Load() == 0 {
			names = append(names, v.behaviours[i].Name)
		}
	}
	return names
}

// claim claims a step's batch of the first trainer.
func (d *deployment) claim(address string, step int) rollout.Batch {
	d.t.Helper()
	var batch rollout.Batch
	d.until(fmt.Sprintf("the batch of step %d", step), func() error {
		url := fmt.Sprintf("http://%s/v1/runs/%s/steps/%d/claim?generation=1&wait=5", address, d.run, step)
		req, err := http.NewRequestWithContext(d.ctx, http.MethodPost, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", resp.Status, resp.Header.Get("X-Millrace-Reason"))
		}
		return json.NewDecoder(resp.Body).Decode(&batch)
	})
	return batch
}

// Whatever engines answer, what reaches a trainer is what its requests allow: turns of the lengths, ids and
// log-probabilities that were asked for, of a version that is published and fresh. Beside a sound engine stand two
// that are sound but for every second answer to a game, so that canaries and good answers speak for them, one that
// only answers games badly, and one that answers its canaries badly too. Steps go on until games have met each
// behaviour of package hostile; the worker and the server stay small.
func TestHostileEngines(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	behaviours := badenginetest.Behaviours()
	v := &villains{behaviours: behaviours, tried: make([]atomic.Int64, len(behaviours))}
	everySecond := func(r *http.Request) bool { return ofGame(r) && v.games.Add(1)%2 == 0 }
	list := d.engine(8) + " id=sound\n"
	for name, bad := range map[string]func(*http.Request) bool{
		"games-1": everySecond, "games-2": everySecond, "every-game": ofGame, "all": func(*http.Request) bool { return true },
	} {
		list += v.engine(d, bad) + " id=" + name + "\n"
	}
	d.write("engines", list)
	w := d.worker()
	address, server := d.server()

	spec := d.spec(d.run, servedModel, 1000)
	spec.Group = runspec.GroupSpec{Samples: 4, MinSamples: 4}
	spec.Buffer.Depth, spec.Buffer.GroupsPerStep = 2, 4
	spec.Sampling.MaxTokens, spec.Sampling.Vocabulary = 8, tokenizer.Size
	spec.Timeouts.Completion = rollout.Duration(5 * time.Second)
	spec.Adapters.PathPrefix = filepath.Join(d.dir, "adapters")
	d.start(spec)
	run := "/v1/runs/" + string(d.run)
	if attached := d.call("POST", run+"/trainer", "{}"); attached.status != http.StatusOK {
		t.Fatalf("attach: %s", attached)
	}
	const fewest = 3 // steps, with a publication after each
	for step := 0; step < fewest || len(v.untried()) > 0; step++ {
		if d.ctx.Err() != nil {
			t.Fatalf("never met after %d steps: %q", step, v.untried())
		}
		batch := d.claim(address, step)
		if len(batch.Groups) != spec.Buffer.GroupsPerStep {
			t.Errorf("step %d has %d groups", step, len(batch.Groups))
		}
		for _, group := range batch.Groups {
			for _, trajectory := range group.Trajectories {
				for _, turn := range trajectory.Turns {
					if err := allowed(turn, &spec, batch.TrainerVersion); err != nil {
						t.Errorf("step %d, %s, engine %s: %v", step, trajectory.ID, turn.Engine, err)
					}
				}
			}
		}
		if step < fewest {
			name := fmt.Sprintf("v%d", step+1)
			d.served(d.publish(step+1, d.adapter(name, name)))
		}
		recorded := d.call("PUT", fmt.Sprintf("%s/steps/%d", run, step), `{"generation":1,"wall_seconds":1}`)
		if recorded.status != http.StatusCreated {
			t.Fatalf("record step %d: %s", step, recorded)
		}
	}
	for what, pid := range map[string]int{"worker": w.cmd.Process.Pid, "server": server} {
		peak := peakMemory(t, pid)
		t.Logf("the %s took %d MiB at most", what, peak>>20)
		if peak > 300<<20 {
			t.Errorf("the %s took %d MiB; want at most 300", what, peak>>20)
		}
	}
}

// allowed is what of a turn its request does not allow.
func allowed(turn rollout.Turn, spec *runspec.Spec, trainer rollout.PolicyVersion) error {
	unknown := func(id int32) bool { return id < 0 || int(id) >= spec.Sampling.Vocabulary }
	impossible := func(p float32) bool { return !(p >= -9999 && p <= 0) }
	switch {
	case len(turn.TokenIDs) == 0 || len(turn.TokenIDs) > spec.Sampling.MaxTokens:
		return fmt.Errorf("%d tokens of at most %d", len(turn.TokenIDs), spec.Sampling.MaxTokens)
	case len(turn.Logprobs) != len(turn.TokenIDs):
		return fmt.Errorf("%d logprobs of %d tokens", len(turn.Logprobs), len(turn.TokenIDs))
	case slices.ContainsFunc(turn.TokenIDs, unknown), slices.ContainsFunc(turn.PromptTokenIDs, unknown):
		return fmt.Errorf("token ids outside the vocabulary: %v after %v", turn.TokenIDs, turn.PromptTokenIDs)
	case slices.ContainsFunc(turn.Logprobs, impossible):
		return fmt.Errorf("logprobs %v", turn.Logprobs)
	case len(turn.PromptTokenIDs) == 0 || len(turn.PromptTokenIDs) > 4096 || len(turn.Text) > 4096:
		return fmt.Errorf("%d prompt tokens and %d bytes of text", len(turn.PromptTokenIDs), len(turn.Text))
	case turn.FinishReason != rollout.FinishStop && turn.FinishReason != rollout.FinishLength:
		return fmt.Errorf("finish reason %q", turn.FinishReason)
	case turn.PolicyVersion < 0 || turn.PolicyVersion > trainer ||
		int64(trainer-turn.PolicyVersion) > spec.Buffer.MaxStaleness:
		return fmt.Errorf("version %d of a batch at %d", turn.PolicyVersion, trainer)
	}
	return nil
}
