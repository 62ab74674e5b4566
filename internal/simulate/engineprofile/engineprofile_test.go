package engineprofile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/simulate/enginesim"
	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

// wire carries calls to an engine in the same process: in a synctest bubble the engine's time is all that passes, and
// what the noise adds.
type wire struct {
	handler http.Handler
	noise   func() time.Duration // before each call; nil: none
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.noise != nil {
		time.Sleep(w.noise())
	}
	recorder := httptest.NewRecorder()
	if func() (aborted bool) {
		defer func() { aborted = recover() != nil }() // A handler panics to close the connection.
		w.handler.ServeHTTP(recorder, r)
		return
	}() {
		return nil, errors.Join(r.Context().Err(), io.ErrUnexpectedEOF)
	}
	resp := recorder.Result()
	resp.Request = r
	resp.ContentLength = int64(recorder.Body.Len())
	return resp, nil
}

// measured calibrates a simulated engine by its own clock.
func measured(t *testing.T, sim enginesim.Config, noise func() time.Duration, cfg Config,
	check func(c *Calibration, err error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		engine, err := enginesim.New(sim)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = engine.Run(ctx) }()
		synctest.Wait()
		client, err := vllm.New(vllm.Config{BaseURL: "http://engine", IgnoreEOS: true,
			HTTPClient: &http.Client{Transport: &wire{engine.Handler(), noise}}})
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Adapter == adapterName {
			if err := client.LoadAdapter(ctx, cfg.Adapter, adapterDir(t)); err != nil {
				t.Fatal(err)
			}
		}
		m, err := Measure(ctx, client, cfg)
		var c *Calibration
		if err == nil {
			c, err = Calibrate(m, cfg)
		}
		check(c, err)
		stop()
		synctest.Wait()
	})
}

// adapterName is an adapter that is loaded before an engine is measured.
const adapterName = "bench-v1"

func adapterDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"adapter_config.json": []byte(`{"peft_type": "LORA", "r": 32, "lora_alpha": 64, ` +
			`"target_modules": ["q_proj", "v_proj"]}`),
		"adapter_model.safetensors": append(binary.LittleEndian.AppendUint64(nil, 2), "{}"...),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// works are steps of all kinds: few and many sequences, short and long contexts, prefills.
var works = []batch.Work{
	{Decoding: 1, KV: 100}, {Decoding: 1, KV: 8000}, {Decoding: 16, KV: 16 * 450}, {Decoding: 64, KV: 64 * 450},
	{Decoding: 200, KV: 200 * 450}, {Decoding: 32, KV: 32 * 4000}, {Prefill: 440, Attended: 440 * 440},
	{Prefill: 2048, Attended: 2048 * 2048}, {Prefill: 8000, Attended: 8000 * 8000},
	{Decoding: 40, KV: 40 * 450, Prefill: 880, Attended: 2 * 440 * 440},
}

// worst is how far the steps of a fitted cost are off at most, as a share.
func worst(fitted, true batch.Cost) float64 {
	off := 0.0
	for _, w := range works {
		off = max(off, math.Abs(float64(fitted.Duration(w))/float64(true.Duration(w))-1))
	}
	return off
}

// quick is a calibration in one round: without noise, more would bring nothing.
func quick() Config {
	cfg := DefaultConfig()
	cfg.Seed, cfg.Rounds, cfg.MaxBatch = 7, 1, 128
	return cfg
}

// TestRecoversTheSimulatedEngine: without noise every step is found within 1.5 %, whatever the engine's profile,
// its speed and its token budget.
func TestRecoversTheSimulatedEngine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		profile string
		speed   float64
		budget  int
	}{
		{"a100-80gb", 1, 16384}, {"h100-80gb", 1, 8192}, {"a100-40gb", 1, 2048}, {"a100-80gb", 30, 16384},
	} {
		t.Run(fmt.Sprintf("%s x%g, %d", tt.profile, tt.speed, tt.budget), func(t *testing.T) {
			t.Parallel()
			if testing.Short() && tt.budget != 2048 {
				t.Skip("one of them is enough under the race detector; run without -short")
			}
			p, err := enginemodel.LoadProfile(tt.profile)
			if err != nil {
				t.Fatal(err)
			}
			sim := enginesim.DefaultConfig()
			sim.Cost, sim.Speed, sim.MaxBatchedTokens = p.Cost(1), tt.speed, tt.budget
			cfg := quick()
			if tt.budget == 8192 {
				cfg.MaxBatch = 256 // fewer hide behind the weights of an H100
			}
			measured(t, sim, nil, cfg, func(c *Calibration, err error) {
				if err != nil {
					t.Fatal(err)
				}
				if off := worst(c.Fit.Cost, p.Cost(1/tt.speed)); off > 0.015 {
					t.Errorf("a step is off by %.2f %%: %+v, want %+v", 100*off, c.Fit.Cost, p.Cost(1/tt.speed))
				}
				if tt.budget < 8192 && c.Fit.TokenBudget != tt.budget {
					t.Errorf("the token budget is fitted as %d, and is %d", c.Fit.TokenBudget, tt.budget)
				}
				if overhead := c.Fit.CallOverhead; overhead > time.Millisecond {
					t.Errorf("a call is said to take %v, and takes nothing", overhead)
				}
				if middle, most := c.errors(); middle > 0.005 || most > 0.02 {
					t.Errorf("the fit is off by %g in the middle and %g at most", middle, most)
				}
			})
		})
	}
}

// TestRecoversUnderNoise: calls that are delayed by some milliseconds, and some by a fifth of a second, do not bend the
// steps by more than 6 %.
func TestRecoversUnderNoise(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("three rounds twice are slow under the race detector; run without -short")
	}
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			var mu sync.Mutex
			noise := func() time.Duration {
				mu.Lock()
				defer mu.Unlock()
				d := 20*time.Millisecond + time.Duration(random.ExpFloat64()*float64(2*time.Millisecond))
				if random.IntN(100) == 0 {
					d += 200 * time.Millisecond
				}
				return d
			}
			cfg := quick()
			cfg.Seed, cfg.Rounds = seed, 3
			sim := enginesim.DefaultConfig()
			measured(t, sim, noise, cfg, func(c *Calibration, err error) {
				if err != nil {
					t.Fatal(err)
				}
				off := worst(c.Fit.Cost, sim.Cost)
				t.Logf("steps are off by %.1f %% at most, a call takes %v", 100*off, c.Fit.CallOverhead)
				if off > 0.06 {
					t.Errorf("a step is off by %.1f %%: %+v", 100*off, c.Fit.Cost)
				}
				if overhead := c.Fit.CallOverhead; overhead < 15*time.Millisecond || overhead > 30*time.Millisecond {
					t.Errorf("a call is said to take %v, and takes 20 to 25 ms", overhead)
				}
			})
		})
	}
}

// TestAdapterFactor: measured when an adapter is named, by itself or as the model, and assumed otherwise; and the
// profile can be read again.
func TestAdapterFactor(t *testing.T) {
	t.Parallel()
	sim := enginesim.DefaultConfig()
	sim.Cost.LoRA = 1.6
	like, err := enginemodel.LoadProfile("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	cfg := quick()
	cfg.Adapter, cfg.MaxBatch = adapterName, 64
	measured(t, sim, nil, cfg, func(c *Calibration, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(c.Fit.Cost.LoRA-1.6) > 0.02 {
			t.Errorf("the factor is %g", c.Fit.Cost.LoRA)
		}
		p := c.Profile("mine", "http://engine", like, true, time.Unix(0, 0).UTC())
		if p.Step.LoRAFactor.Kind != enginemodel.Measured || p.Engine.KVTokens.Kind != enginemodel.Assumed {
			t.Errorf("%+v", p.Step.LoRAFactor)
		}
		again, err := enginemodel.ReadProfile("mine.json", p.Text())
		if err != nil || worst(again.Cost(1), c.Fit.Cost) > 0.001 {
			t.Errorf("the profile is not read again: %v\n%s", err, p.Text())
		}
		var report strings.Builder
		if err := c.WriteText(&report, p); err != nil {
			t.Fatal(err)
		}
		for _, says := range []string{"decode, adapter", "step.lora_factor", "AGAINST NVIDIA A100", "at most 2.207e+04"} {
			if !strings.Contains(report.String(), says) {
				t.Errorf("the report does not say %q:\n%s", says, report.String())
			}
		}
	})
}

// TestFewerSequences: an engine that runs fewer requests than it is sent tells so, and its steps are found all the
// same.
func TestFewerSequences(t *testing.T) {
	t.Parallel()
	sim := enginesim.DefaultConfig()
	sim.MaxNumSeqs = 64
	cfg := quick()
	measured(t, sim, nil, cfg, func(c *Calibration, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Measurements.MaxSequences != 64 {
			t.Errorf("it is said to run %d at once", c.Measurements.MaxSequences)
		}
		if got, want := c.Fit.Cost.Duration(works[2]), sim.Cost.Duration(works[2]); (got - want).Abs() > want/50 {
			t.Errorf("a step takes %v, want %v", got, want)
		}
	})
}

// TestEngineThatRefusesMany: an engine with a short queue is measured as far as it goes.
func TestEngineThatRefusesMany(t *testing.T) {
	t.Parallel()
	sim := enginesim.DefaultConfig()
	sim.MaxQueuedRequests = 40
	measured(t, sim, nil, quick(), func(c *Calibration, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Measurements.MaxSequences != 32 {
			t.Errorf("it is said to take %d at once", c.Measurements.MaxSequences)
		}
		if got, want := c.Fit.Cost.Duration(works[2]), sim.Cost.Duration(works[2]); (got - want).Abs() > want/50 {
			t.Errorf("a step takes %v, want %v", got, want)
		}
	})
}

// TestAnotherModelIsTold: bounds of a model that the engine does not serve bind nothing.
func TestAnotherModelIsTold(t *testing.T) {
	t.Parallel()
	like, err := enginemodel.LoadProfile("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	for model, warned := range map[string]bool{"Qwen/Qwen2.5-7B-Instruct": false, "meta-llama/Llama-3.1-8B": true} {
		c := &Calibration{Measurements: &Measurements{Model: model}}
		told := strings.Contains(strings.Join(c.warnings(like), "\n"), "bounds below are those of Qwen")
		if told != warned {
			t.Errorf("%s: told %t", model, told)
		}
	}
}

// TestImpossibleEngine: a simulated engine at 30 times its speed is no A100, and is not written down as one.
func TestImpossibleEngine(t *testing.T) {
	t.Parallel()
	sim := enginesim.DefaultConfig()
	sim.Speed = 30
	cfg := quick()
	like, err := enginemodel.LoadProfile("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	measured(t, sim, nil, cfg, func(c *Calibration, err error) {
		if err != nil {
			t.Fatal(err)
		}
		p := c.Profile("mine", "http://engine", like, true, time.Unix(0, 0).UTC())
		_, err = enginemodel.ReadProfile("mine.json", p.Text())
		if err == nil || !strings.Contains(err.Error(), "tokens/s is more than the 22065.1") {
			t.Errorf("%v", err)
		}
	})
}

// TestEnginesThatCannotBeMeasured: each ends with what is wrong.
func TestEnginesThatCannotBeMeasured(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		sim  func(*enginesim.Config)
		cfg  func(*Config)
		says string
	}{
		{name: "an unknown model", cfg: func(c *Config) { c.Model = "gpt" }, says: `it does not serve "gpt"; it serves Qwen/`},
		{name: "an unknown adapter", cfg: func(c *Config) { c.Adapter = "v1" }, says: `it does not serve "v1"`},
		{name: "a short context", sim: func(c *enginesim.Config) { c.MaxModelLen = 700 }, says: "takes 700 tokens at most"},
		{name: "no key", sim: func(c *enginesim.Config) { c.APIKey = "secret" }, says: "401"},
		{name: "a queue of two", sim: func(c *enginesim.Config) { c.MaxQueuedRequests = 2 }, says: "4 at once"},
		{name: "no time", cfg: func(c *Config) { c.MaxTime = time.Second }, says: "one round takes longer than 1s"},
		{name: "an impossible batch", cfg: func(c *Config) { c.MaxBatch = 1 }, says: "max batch: 1 is not"},
		{name: "answers that take too long", cfg: func(c *Config) { c.Timeout = 5 * time.Millisecond },
			says: "1 at once of 400"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sim, cfg := enginesim.DefaultConfig(), quick()
			if tt.sim != nil {
				tt.sim(&sim)
			}
			if tt.cfg != nil {
				tt.cfg(&cfg)
			}
			measured(t, sim, nil, cfg, func(_ *Calibration, err error) {
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%v; want it to say %q", err, tt.says)
				}
			})
		})
	}
}

// TestIgnoredIgnoreEOS: an engine whose answers end early is not measured by mistake.
func TestIgnoredIgnoreEOS(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, err := enginesim.New(enginesim.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = engine.Run(ctx) }()
		deaf := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Body == nil {
				engine.Handler().ServeHTTP(w, r)
				return
			}
			body, _ := io.ReadAll(r.Body)
			body = bytes.Replace(body, []byte(`"ignore_eos":true`), []byte(`"stop":[" ","e","t"]`), 1)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			engine.Handler().ServeHTTP(w, r)
		})
		client, err := vllm.New(vllm.Config{BaseURL: "http://engine", IgnoreEOS: true,
			HTTPClient: &http.Client{Transport: &wire{handler: deaf}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Measure(ctx, client, quick()); err == nil || !strings.Contains(err.Error(), "ignore_eos") {
			t.Errorf("%v", err)
		}
		stop()
		synctest.Wait()
	})
}

// TestLeastSquares: exact equations are solved exactly, an outlier is seen through, and nothing becomes negative.
func TestLeastSquares(t *testing.T) {
	t.Parallel()
	truth := []float64{3, 0, 0.002}
	var equations []equation
	random := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		e := equation{of: []float64{1, random.Float64(), 1000 * random.Float64()}}
		e.value = e.residualFree(truth)
		e.weight = 1 / e.value
		equations = append(equations, e)
	}
	check := func(what string, tolerance float64) {
		x, _ := solve(equations, 3)
		for i := range x {
			if x[i] < 0 || math.Abs(x[i]-truth[i]) > tolerance*max(truth[i], 1) {
				t.Errorf("%s: %v, want %v", what, x, truth)
				break
			}
		}
	}
	check("exact", 1e-6)
	equations[3].value *= 4
	equations[9].value /= 3
	check("two outliers", 0.02)
}

func (e *equation) residualFree(x []float64) float64 {
	sum := 0.0
	for i := range x {
		sum += e.of[i] * x[i]
	}
	return sum
}
