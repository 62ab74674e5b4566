package fleet_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/simulate/enginesim"
)

// inProcess carries requests to a handler without a network, so that both ends live in one bubble.
type inProcess struct{ http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	answered := make(chan *http.Response, 1)
	go func() {
		w := httptest.NewRecorder()
		defer func() {
			if recover() != nil { // http.ErrAbortHandler: the connection is cut
				close(answered)
			}
		}()
		p.ServeHTTP(w, r)
		answered <- w.Result()
	}()
	select {
	case resp, ok := <-answered:
		if !ok {
			return nil, errors.New("connection reset by peer")
		}
		return resp, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// simulated makes a running engine and a client of it.
func simulated(t *testing.T, change func(*enginesim.Config)) (*enginesim.Engine, *vllm.Client) {
	t.Helper()
	cfg := enginesim.DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	engine, err := enginesim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	client, err := vllm.New(vllm.Config{BaseURL: "http://engine",
		HTTPClient: &http.Client{Transport: inProcess{engine.Handler()}}})
	if err != nil {
		t.Fatal(err)
	}
	return engine, client
}

// noTensors is an empty safetensors file: the length of its header, and the header.
const noTensors = "\x08\x00\x00\x00\x00\x00\x00\x00{}      "

// adapterAt writes an adapter with this configuration.
func adapterAt(t *testing.T, config string) fleet.Adapter {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"adapter_config.json": config, "adapter_model.safetensors": noTensors} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := adapter(1)
	a.Path = dir
	return a
}

// TestKeeperWithASimulatedEngine goes through the client and the engine's real answers: join, load, restart, reload.
func TestKeeperWithASimulatedEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		engine, client := simulated(t, nil)
		r := newRig(t)
		r.clients.Store("http://sim:8000", client)
		if err := r.registry.Want(ctx, adapterAt(t, `{"r":8,"lora_alpha":16,"target_modules":["q_proj"]}`)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.registry.Add(ctx, enginestate.Engine{ID: "sim", URL: "http://sim:8000"}); err != nil {
			t.Fatal(err)
		}
		serves := func(e enginestate.Engine) bool {
			return e.State == enginestate.EngineReady && slices.Contains(e.Adapters, "demo-v1")
		}
		r.within(time.Minute, "sim", "serving the adapter", serves)
		go func() {
			if err := engine.Restart(ctx, 20*time.Second); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}()
		lost := r.within(20*time.Second, "sim", "lost", in(enginestate.EngineLost))
		back := r.within(time.Minute, "sim", "serving the adapter again", serves)
		t.Logf("lost after %v, serving again %v later", lost, back)
		want := []enginestate.EngineState{enginestate.EngineLoading, enginestate.EngineReady, enginestate.EngineLost,
			enginestate.EngineLoading,
			enginestate.EngineReady}
		if states := r.events.states("sim"); !slices.Equal(states, want) {
			t.Errorf("states %v, want %v", states, want)
		}
	})
}

// TestKeeperReadsAdapterSlots: an engine that is at work tells its --max-loras.
func TestKeeperReadsAdapterSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := simulated(t, func(c *enginesim.Config) { c.MaxLoRAs = 3 })
		r := newRig(t)
		r.clients.Store("http://sim:8000", client)
		if _, err := r.registry.Add(t.Context(), enginestate.Engine{ID: "sim", URL: "http://sim:8000"}); err != nil {
			t.Fatal(err)
		}
		r.within(time.Minute, "sim", "ready", in(enginestate.EngineReady))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for ctx.Err() == nil {
				_, err := client.Complete(ctx, rollout.Request{
					Model: enginesim.DefaultConfig().Model, Prompt: "Once",
					Sampling: rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 500},
				})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		}()
		r.within(time.Minute, "sim", "telling its slots", func(e enginestate.Engine) bool { return e.AdapterSlots == 3 })
	})
}

// TestEngineWithoutLoRAHasOneReason, and tells it before a run has published anything.
func TestEngineWithoutLoRAHasOneReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := simulated(t, func(c *enginesim.Config) { c.RuntimeLoRA = false })
		r := newRig(t)
		r.clients.Store("http://sim:8000", client)
		if _, err := r.registry.Add(t.Context(), enginestate.Engine{ID: "sim", URL: "http://sim:8000"}); err != nil {
			t.Fatal(err)
		}
		oneReason := func(e enginestate.Engine) bool {
			return e.State == enginestate.EngineReady && e.NoAdapters != "" && e.Reason == e.NoAdapters
		}
		r.within(time.Minute, "sim", "ready, without adapters", oneReason)
		r.want(adapter(1), adapter(2))
		r.within(time.Minute, "sim", "lacking both for one reason", func(e enginestate.Engine) bool {
			return oneReason(e) && len(e.Troubles) == 2
		})
	})
}

// TestLoadOnASimulatedEngine checks that the engine's own words lead to the right kind of failure.
func TestLoadOnASimulatedEngine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		config string
		change func(*enginesim.Config)
		code   rollout.Code
	}{
		{name: "fine", config: `{"r":8,"lora_alpha":16,"target_modules":["q_proj"]}`},
		{name: "rank", config: `{"r":512,"lora_alpha":16,"target_modules":["q_proj"]}`, code: rollout.CodeRankTooHigh},
		{name: "DoRA", config: `{"r":8,"lora_alpha":16,"target_modules":["q_proj"],"use_dora":true}`,
			code: rollout.CodeBadAdapter},
		{name: "no LoRA at run time", config: `{"r":8,"lora_alpha":16,"target_modules":["q_proj"]}`,
			change: func(c *enginesim.Config) { c.RuntimeLoRA = false }, code: rollout.CodeLoRADisabled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, client := simulated(t, tt.change)
				_, err := fleet.Loader{}.Load(t.Context(), client, "sim", adapterAt(t, tt.config))
				if rollout.CodeOf(err) != tt.code || tt.code != "" && rollout.KindOf(err) != rollout.Permanent {
					t.Errorf("got %v, want a permanent failure with code %q", err, tt.code)
				}
			})
		})
	}
}
