package fleet_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine/adapterfiles"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// law is the logprobs of a model's weights.
type law func(tokens []int32) []float64

// lawOf draws logprobs that depend on a seed.
func lawOf(seed uint64) law {
	return func(tokens []int32) []float64 {
		out := make([]float64, 0, len(tokens)-1)
		for i := range tokens[1:] {
			rng := rand.New(rand.NewPCG(seed, uint64(i)<<32|uint64(tokens[i+1])))
			out = append(out, -3*rng.Float64()-0.5)
		}
		return out
	}
}

// moved is other weights at a distance from a law, as an adapter moves a base model: by so much of a direction.
func (l law) moved(direction uint64, by float64) law {
	toward := lawOf(direction)
	return func(tokens []int32) []float64 {
		out := l(tokens)
		for i, d := range toward(tokens) {
			out[i] = min(out[i]+by*(d+2), 0)
		}
		return out
	}
}

// noisy is a law by an engine that rounds.
func (l law) noisy(by float64) law {
	var one sync.Mutex
	rng := rand.New(rand.NewPCG(99, 0))
	return func(tokens []int32) []float64 {
		one.Lock()
		defer one.Unlock()
		out := l(tokens)
		for i := range out {
			out[i] = min(out[i]+by*(2*rng.Float64()-1), 0)
		}
		return out
	}
}

// An engine that took an adapter is asked for the logprobs of its probes before anything is sent there: one that serves
// other weights under the adapter's name is told from one that rounds.
func TestAdaptersAreProvenByTheirProbes(t *testing.T) {
	t.Parallel()
	base := lawOf(1)
	trained, before := base.moved(2, 0.3).moved(3, 0.05), base.moved(2, 0.3)
	tiny := base.moved(2, 0.002)
	for _, tt := range []struct {
		name    string
		trainer law // of the version
		engine  law // under the version's name
		base    law // of the engine
		bound   float64
		fault   string
	}{
		{"it serves the weights", trained, trained, base, 0, ""},
		{"it rounds", trained, trained.noisy(0.03), base.noisy(0.03), 0, ""},
		{"it rounds more than the bound", trained, trained.noisy(0.2), base.noisy(0.2), 0.02, "nats from the trainer's"},
		{"it serves the base model", trained, base, base, 0, "as the base model does"},
		{"it serves the version before", trained, before, base, 0, "as the version before does"},
		{"its base model is another one", trained, lawOf(7).moved(2, 0.3), lawOf(7), 0, "nats from the trainer's"},
		{"at four times the scale", trained, base.moved(2, 1.2).moved(3, 0.2), base, 9, "times what the trainer's move"},
		{"at a quarter of the scale", trained, base.moved(2, 0.075).moved(3, 0.0125), base, 9, "times what the trainer's"},
		{"a small update that does not act", tiny, base, base, 0, "as the base model does"},
		{"a small update below what is rounded", tiny, base.noisy(0.03), base.noisy(0.03), 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := adapter(2)
			a.Prefix, a.ProbeBound = t.TempDir(), tt.bound
			a.Path = filepath.Join(a.Prefix, "v2")
			writeProbes(t, a.Path, tt.trainer, base, before)
			e := newFakeEngine()
			e.adapters["demo-v1"] = "/adapters/demo-v1"
			e.score = map[string]law{"base": tt.base, "demo-v1": before, "demo-v2": tt.engine}
			_, err := fleet.Loader{}.Load(t.Context(), e, "a", a)
			switch {
			case tt.fault == "" && (err != nil || !e.serves("demo-v2")):
				t.Errorf("it does not serve: %v", err)
			case tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault) || e.serves("demo-v2") ||
				rollout.CodeOf(err) != "adapter_does_not_act" || rollout.KindOf(err) != rollout.Permanent):
				t.Errorf("%v (%s); want %q, and the adapter unloaded", err, rollout.CodeOf(err), tt.fault)
			}
		})
	}
}

// writeProbes writes what a trainer writes beside an adapter.
func writeProbes(t *testing.T, dir string, trainer, base, before law) {
	t.Helper()
	var file struct {
		Probes []adapterfiles.Probe `json:"probes"`
	}
	for p := range 3 {
		tokens := make([]int32, 40)
		for i := range tokens {
			tokens[i] = int32(100*p + i)
		}
		file.Probes = append(file.Probes, adapterfiles.Probe{Tokens: tokens, From: 8, Logprobs: trainer(tokens)[7:],
			Base: base(tokens)[7:], Previous: before(tokens)[7:]})
	}
	writeProbeFile(t, dir, file)
}

func writeProbeFile(t *testing.T, dir string, file any) {
	t.Helper()
	text, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, adapterfiles.ProbesFile), text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Probes that say nothing are the adapter's fault.
func TestProbesThatSayNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"none":                 `{"probes": []}`,
		"no JSON":              `probes`,
		"no token is scored":   `{"probes": [{"tokens": [1, 2], "from": 2, "logprobs": []}]}`,
		"the first is scored":  `{"probes": [{"tokens": [1, 2], "from": 0, "logprobs": [-1, -1]}]}`,
		"too few":              `{"probes": [{"tokens": [1, 2, 3], "from": 1, "logprobs": [-1]}]}`,
		"too few of the base":  `{"probes": [{"tokens": [1, 2, 3], "from": 1, "logprobs": [-1, -1], "base_logprobs": [-1]}]}`,
		"a probability of 200": `{"probes": [{"tokens": [1, 2], "from": 1, "logprobs": [5.3]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := adapter(2)
			a.Prefix = t.TempDir()
			a.Path = filepath.Join(a.Prefix, "v2")
			writeProbes(t, a.Path, lawOf(1), lawOf(1), lawOf(1))
			if err := os.WriteFile(filepath.Join(a.Path, adapterfiles.ProbesFile), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			e := newFakeEngine()
			_, err := fleet.Loader{}.Load(t.Context(), e, "a", a)
			if rollout.CodeOf(err) != rollout.CodeBadAdapter || e.serves(a.Name) ||
				!strings.Contains(err.Error(), adapterfiles.ProbesFile) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A worker may die between a load and its probes, and an engine may restart. Whatever an engine lists, it gets requests
// for what it has proven in this life of its, and nothing else.
func TestWhatIsListedAndNotProvenIsNotServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "a", "b")
		a := adapter(2)
		a.Prefix = t.TempDir()
		a.Path = filepath.Join(a.Prefix, "v2")
		base := lawOf(1)
		trained := base.moved(2, 0.3)
		writeProbes(t, a.Path, trained, base, base)
		gate := make(chan bool)
		held := func(tokens []int32) []float64 { <-gate; return trained(tokens) }
		for id, served := range map[rollout.EngineID]law{"a": held, "b": base} {
			e := r.engines["http://"+string(id)+":8000"]
			r.within(5*time.Second, id, "ready", in(enginestate.EngineReady))
			if err := r.registry.RecordLoad(t.Context(), id, a); err != nil { // by a worker that dies after the load
				t.Fatal(err)
			}
			e.set(func(e *fakeEngine) {
				e.adapters[a.Name], e.score = a.Path, map[string]law{"base": base, a.Name: served}
			})
		}
		unproven := func(e enginestate.Engine) bool {
			return e.State == enginestate.EngineReady && !slices.Contains(e.Adapters, a.Name)
		}
		stays := func(id rollout.EngineID) {
			t.Helper()
			for range 60 {
				time.Sleep(100 * time.Millisecond)
				r.within(0, id, "ready without what is not proven", unproven)
			}
		}
		stays("a") // the version is not wanted yet
		r.want(a)
		stays("a")
		stays("b")
		if b, _ := r.registry.Get(t.Context(), "b"); !strings.Contains(b.Troubles[a.Name], "as the base model does") ||
			b.Proofs[a.Name].Verdict != enginestate.DoesNotAct || b.Proofs[a.Name].FromTrainer == 0 {
			t.Errorf("troubles %q, proofs %+v", b.Troubles, b.Proofs)
		}
		close(gate)
		r.within(5*time.Second, "a", "serving what it has proven", func(e enginestate.Engine) bool {
			return serving(a.Name)(e) && e.Proofs[a.Name].Verdict == enginestate.Proven && e.Proofs[a.Name].FromBase > 0.1
		})

		e := r.engines["http://a:8000"]
		gate = make(chan bool)
		e.set(func(e *fakeEngine) { clear(e.adapters) }) // restarted
		r.within(5*time.Second, "a", "asked to load it again", func(enginestate.Engine) bool { return e.serves(a.Name) })
		for range 60 {
			time.Sleep(100 * time.Millisecond)
			r.within(0, "a", "without what it has not proven since", func(e enginestate.Engine) bool {
				return !slices.Contains(e.Adapters, a.Name)
			})
		}
		close(gate)
		r.within(5*time.Second, "a", "serving again", serving(a.Name))
	})
}

// What is proven is not asked again: a publication that another worker goes on with costs no second look.
func TestWhatIsProvenIsNotProvenAgain(t *testing.T) {
	t.Parallel()
	registry := fleet.NewRegistry(newRedis(t), "test", time.Now)
	a := adapter(2)
	a.Prefix = t.TempDir()
	a.Path = filepath.Join(a.Prefix, "v2")
	writeProbes(t, a.Path, lawOf(1).moved(2, 0.3), lawOf(1), lawOf(1))
	e := newFakeEngine()
	var scored atomic.Int32
	trained := lawOf(1).moved(2, 0.3)
	e.score = map[string]law{"base": lawOf(1), a.Name: func(tokens []int32) []float64 {
		scored.Add(1)
		return trained(tokens)
	}}
	for range 2 { // workers
		if _, err := (fleet.Loader{Records: registry}).Load(t.Context(), e, "a", a); err != nil {
			t.Fatal(err)
		}
	}
	if scored.Load() != 3 || e.loads != 1 {
		t.Errorf("%d probes of 3, %d loads of 1", scored.Load(), e.loads)
	}
}
