package demotrainer_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/face/demotrainer"
)

// service is the API server as far as a trainer sees it, in memory and in the test's own time. It is its own transport.
type service struct {
	mu          sync.Mutex
	steps       int64
	generation  int64
	next        int64            // first step not recorded
	version     int64            // newest published
	policies    map[int64]string // paths
	records     map[int64]record
	played      time.Duration // how long a batch takes to be played
	readyAt     time.Time
	unavailable int                  // requests to fail before the next answer
	tamper      func(map[string]any) // changes a batch before it is sent
	cut         int                  // batches to break off
	noEngine    time.Time            // until when no engine can load an adapter
	gone        bool                 // there is no such run any more
}

type record struct {
	Generation int64              `json:"generation"`
	WallSec    float64            `json:"wall_seconds"`
	Phases     map[string]float64 `json:"phases"`
	Metrics    map[string]float64 `json:"metrics"`
}

func newService(steps int64) *service {
	return &service{steps: steps, policies: map[int64]string{}, records: map[int64]record{}}
}

func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	unavailable := s.unavailable > 0
	if unavailable {
		s.unavailable--
	}
	s.mu.Unlock()
	if unavailable {
		return nil, errors.New("connection refused")
	}
	w := httptest.NewRecorder()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/runs/demo/trainer", s.attach)
	mux.HandleFunc("POST /v1/runs/demo/steps/{step}/claim", s.claim)
	mux.HandleFunc("PUT /v1/runs/demo/steps/{step}", s.record)
	mux.HandleFunc("PUT /v1/runs/demo/policies/{version}", s.publish)
	mux.ServeHTTP(w, r)
	return w.Result(), nil
}

func problem(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"urn:millrace:problem:%s","status":%d,"detail":%q}`, code, status, detail)
}

func (s *service) attach(w http.ResponseWriter, r *http.Request) {
	var body struct {
		ResumeFrom *int64 `json:"resume_from"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		problem(w, http.StatusBadRequest, "malformed", err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if body.ResumeFrom != nil {
		if *body.ResumeFrom > s.next {
			problem(w, http.StatusConflict, "out-of-order", "that step was not reached")
			return
		}
		s.next = *body.ResumeFrom
	}
	s.generation++
	fmt.Fprintf(w, `{"generation":%d,"next_step":%d,"policy_version":%d,"spec":{"model":"m","steps":%d,"adapters":{"rank":8}}}`, s.generation, s.next, s.version, s.steps)
}

func (s *service) claim(w http.ResponseWriter, r *http.Request) {
	step, _ := strconv.ParseInt(r.PathValue("step"), 10, 64)
	wait, _ := time.ParseDuration(r.FormValue("wait"))
	s.mu.Lock()
	if s.readyAt.IsZero() {
		s.readyAt = time.Now().Add(s.played)
	}
	rest, generation := time.Until(s.readyAt), s.generation
	s.mu.Unlock()
	switch {
	case r.FormValue("generation") != fmt.Sprint(generation):
		problem(w, http.StatusConflict, "fenced", "a newer trainer took over")
		return
	case step >= s.steps:
		problem(w, http.StatusGone, "run-over", "the run has 3 steps")
		return
	case rest > wait:
		time.Sleep(wait)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	time.Sleep(rest)
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := json.Marshal(s.batch(step))
	if err != nil {
		panic(err)
	}
	if s.cut > 0 {
		s.cut--
		text = text[:len(text)/2]
	}
	w.Write(text)
}

// batch is two groups of one trajectory each; it depends on nothing but the step and the newest version.
func (s *service) batch(step int64) map[string]any {
	var groups []any
	for seq := 2 * step; seq < 2*step+2; seq++ {
		groups = append(groups, map[string]any{
			"ref": map[string]any{"run": "demo", "seq": seq},
			"trajectories": []any{map[string]any{
				"trajectory_id": fmt.Sprintf("demo/%d/0/FRANCE", seq), "reward": 1,
				"turns": []any{map[string]any{
					"prompt_token_ids": []int{1, 2}, "token_ids": []int{3, 4}, "logprobs": []float64{-0.1, 0},
					"loss_mask": []int{1, 1}, "policy_version": max(0, s.version-1),
				}},
			}},
		})
	}
	b := map[string]any{"run": "demo", "step": step, "trainer_version": s.version, "groups": groups}
	if s.tamper != nil {
		s.tamper(b)
	}
	return b
}

func (s *service) record(w http.ResponseWriter, r *http.Request) {
	step, _ := strconv.ParseInt(r.PathValue("step"), 10, 64)
	var rec record
	if err := json.NewDecoder(r.Body).Decode(&rec); err != nil {
		problem(w, http.StatusBadRequest, "malformed", err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec.Generation != s.generation {
		problem(w, http.StatusConflict, "fenced", "a newer trainer took over")
		return
	}
	s.records[step] = rec
	s.next = step + 1
	s.readyAt = time.Time{}
	w.WriteHeader(http.StatusCreated)
}

func (s *service) publish(w http.ResponseWriter, r *http.Request) {
	version, _ := strconv.ParseInt(r.PathValue("version"), 10, 64)
	var body struct{ Path string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		problem(w, http.StatusBadRequest, "malformed", err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		problem(w, http.StatusNotFound, "no-such-run", "there is no run demo")
		return
	}
	if time.Now().Before(s.noEngine) {
		problem(w, http.StatusServiceUnavailable, "unavailable", "no engine is ready")
		return
	}
	if old, there := s.policies[version]; there && old != body.Path || version > s.version+1 {
		problem(w, http.StatusConflict, "conflict", "version published from elsewhere, or out of order")
		return
	}
	s.policies[version], s.version = body.Path, max(s.version, version)
	fmt.Fprint(w, `{"state":"serving"}`)
}

// config is a trainer of this service.
func (s *service) config(t *testing.T) demotrainer.Config {
	t.Helper()
	return demotrainer.Config{
		Server: "http://service", Run: "demo", AdapterDir: t.TempDir(),
		Journal: filepath.Join(t.TempDir(), "journal.jsonl"), HTTPClient: &http.Client{Transport: s}, Speed: 10,
		Load: time.Second, RefLogprobs: 20 * time.Second, Train: 100 * time.Second, Publish: 5 * time.Second,
	}
}

// An outage of the engines outlasts the patience with a server that is unavailable: the weights are good, and are
// published when it is over.
func TestWaitsForEngines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(1)
		s.noEngine = time.Now().Add(40 * time.Minute)
		cfg := s.config(t)
		cfg.Patience = time.Minute
		if err := demotrainer.Run(t.Context(), cfg); err != nil || s.version != 1 || len(s.records) != 1 {
			t.Errorf("%v; version %d, %d records", err, s.version, len(s.records))
		}
	})
}

func TestTrainsARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(3)
		s.played = 45 * time.Second // longer than one poll
		cfg := s.config(t)
		var log bytes.Buffer
		cfg.Log = &log
		if err := demotrainer.Run(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if len(s.records) != 3 || s.version != 3 {
			t.Fatalf("%d records, version %d", len(s.records), s.version)
		}
		for step, rec := range s.records {
			want := map[string]float64{"wait": 45.1, "load": 0.1, "ref_logprobs": 2, "train": 10, "publish": 0.5}
			for phase, sec := range want {
				if got := rec.Phases[phase]; got < sec-0.2 || got > sec+0.2 {
					t.Errorf("step %d: %s took %v s, want about %v", step, phase, got, sec)
				}
			}
			sum := 0.0
			for _, sec := range rec.Phases {
				sum += sec
			}
			if rec.WallSec < sum-0.001 || rec.WallSec > sum+0.1 {
				t.Errorf("step %d: phases add up to %v s of %v", step, sum, rec.WallSec)
			}
			if rec.Generation != 1 || rec.Metrics["trajectories"] != 2 || rec.Metrics["tokens"] != 4 {
				t.Errorf("step %d: %+v", step, rec)
			}
		}
		if text := log.String(); strings.Count(text, "\nstep ") != 3 || !strings.Contains(text, "run demo is over") {
			t.Errorf("log:\n%s", text)
		}
	})
}

func TestResumesWhereItWasKilled(t *testing.T) {
	t.Parallel()
	// Killed while it trains, and killed between publishing and recording.
	for _, killedAfter := range []time.Duration{17 * time.Second, 25*time.Second + 10*time.Millisecond} {
		t.Run(killedAfter.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newService(3)
				cfg := s.config(t)
				ctx, kill := context.WithTimeout(t.Context(), killedAfter)
				defer kill()
				if err := demotrainer.Run(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("killed: %v", err)
				}
				if s.next != 1 {
					t.Fatalf("killed in step %d, want 1", s.next)
				}
				if err := demotrainer.Run(t.Context(), cfg); err != nil {
					t.Fatal(err)
				}
				if s.version != 3 || s.generation != 2 || len(s.records) != 3 {
					t.Errorf("version %d, generation %d, %d records", s.version, s.generation, len(s.records))
				}
				checkJournal(t, cfg.Journal, 3)
			})
		})
	}
}

// checkJournal verifies that every step is there and that no trajectory belongs to two.
func checkJournal(t *testing.T, path string, steps int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	owner := map[string]int64{}
	seen := map[int64]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e struct {
			Step         int64    `json:"step"`
			Trajectories []string `json:"trajectories"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		seen[e.Step] = true
		for _, id := range e.Trajectories {
			if other, taken := owner[id]; taken && other != e.Step {
				t.Errorf("trajectory %s in steps %d and %d", id, other, e.Step)
			}
			owner[id] = e.Step
		}
	}
	if len(seen) != steps || len(owner) != 2*steps {
		t.Errorf("journal of %d steps and %d trajectories", len(seen), len(owner))
	}
}

func TestSurvivesAnUnavailableServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(2)
		s.unavailable, s.cut = 12, 2
		if err := demotrainer.Run(t.Context(), s.config(t)); err != nil {
			t.Fatal(err)
		}
		if len(s.records) != 2 {
			t.Errorf("%d records", len(s.records))
		}
	})
}

func TestGivesUp(t *testing.T) {
	t.Parallel()
	set := func(at func(map[string]any) map[string]any, field string, value any) func(map[string]any) {
		return func(b map[string]any) { at(b)[field] = value }
	}
	whole := func(b map[string]any) map[string]any { return b }
	path := func(b map[string]any) map[string]any {
		group := b["groups"].([]any)[0].(map[string]any)
		return group["trajectories"].([]any)[0].(map[string]any)
	}
	turn := func(b map[string]any) map[string]any { return path(b)["turns"].([]any)[0].(map[string]any) }
	for _, tt := range []struct {
		name   string
		tamper func(map[string]any)
		change func(*service, *demotrainer.Config)
		want   string
	}{
		{name: "other step", tamper: set(whole, "step", 7), want: "batch of step 7"},
		{name: "logprobs too short", tamper: set(turn, "logprobs", []float64{0}), want: "1 logprobs"},
		{name: "mask too long", tamper: set(turn, "loss_mask", []int{1, 1, 1}), want: "3 of the loss mask"},
		{name: "a version from the future", tamper: set(turn, "policy_version", 9), want: "version 9"},
		{name: "no prompt", tamper: set(turn, "prompt_token_ids", []int{}), want: "0 prompt tokens"},
		{name: "a trajectory twice", tamper: set(path, "trajectory_id", "demo/1/0/FRANCE"), want: "twice"},
		{name: "nothing in it", tamper: set(whole, "groups", []any{}), want: "nothing to train on"},
		{name: "fenced", change: func(s *service, _ *demotrainer.Config) {
			s.tamper = func(map[string]any) { s.generation++ } // another trainer announces itself during step 0
		}, want: "start it again"},
		{name: "the run is gone meanwhile", change: func(s *service, _ *demotrainer.Config) {
			s.tamper = func(map[string]any) { s.gone = true } // while step 0 is trained
		}, want: "was there when this trainer attached"},
		{name: "no such run", change: func(_ *service, c *demotrainer.Config) { c.Run = "other" }, want: "404"},
		{name: "server unavailable for good", change: func(s *service, _ *demotrainer.Config) {
			s.unavailable = 1 << 30
		}, want: "gave up"},
		{name: "no server", change: func(_ *service, c *demotrainer.Config) { c.Server = "localhost" }, want: "want a URL"},
		{name: "version taken", change: func(s *service, _ *demotrainer.Config) {
			s.policies[1] = "/elsewhere"
		}, want: "publish version 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newService(3)
				s.tamper = tt.tamper
				cfg := s.config(t)
				if tt.change != nil {
					tt.change(s, &cfg)
				}
				err := demotrainer.Run(t.Context(), cfg)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want it to say %q", err, tt.want)
				}
			})
		})
	}
}

func TestAdaptersAreWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(2)
		cfg := s.config(t)
		cfg.Rank = 16
		cfg.Log = io.Discard
		if err := demotrainer.Run(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(cfg.AdapterDir)
		if err != nil || len(entries) != 2 {
			t.Fatalf("%d entries, %v", len(entries), err)
		}
		var weights [][]byte
		for version := int64(1); version <= 2; version++ {
			dir := s.policies[version]
			if filepath.Dir(dir) != cfg.AdapterDir || !strings.HasPrefix(filepath.Base(dir), fmt.Sprintf("demo-v%d-", version)) {
				t.Errorf("version %d is in %s", version, dir)
			}
			text, err := os.ReadFile(filepath.Join(dir, "adapter_config.json"))
			if err != nil {
				t.Fatal(err)
			}
			var config map[string]any
			if err := json.Unmarshal(text, &config); err != nil {
				t.Fatal(err)
			}
			if config["r"] != 16.0 || config["peft_type"] != "LORA" || config["bias"] != "none" ||
				config["base_model_name_or_path"] != "m" {
				t.Errorf("config %v", config)
			}
			b, err := os.ReadFile(filepath.Join(dir, "adapter_model.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			weights = append(weights, b)
		}
		if reflect.DeepEqual(weights[0], weights[1]) {
			t.Error("both versions have the same weights")
		}
	})
}
