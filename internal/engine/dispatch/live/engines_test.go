package live_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/engine/dispatch/live"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/simulate/enginesim"
)

const model = "qwen"

// fleet is simulated engines behind the real HTTP API, and a dispatcher over them with the real client.
type fleet struct {
	*live.Dispatcher
	engines []*enginesim.Engine
	list    []enginestate.Engine
	timeout time.Duration // of a try
}

func newFleet(t *testing.T, engines, limit int, cfg dispatch.Config) *fleet {
	t.Helper()
	f := &fleet{timeout: time.Minute}
	clients := map[rollout.EngineID]*vllm.Client{}
	for i := range engines {
		engine, url := startEngine(t, 100)
		client, err := vllm.New(vllm.Config{BaseURL: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		id := rollout.EngineID(fmt.Sprintf("e%d", i))
		clients[id] = client
		f.engines = append(f.engines, engine)
		f.list = append(f.list, enginestate.Engine{ID: id, URL: url, State: enginestate.EngineReady, MaxInFlight: limit,
			Models: []string{model}})
	}
	f.Dispatcher = live.New(live.Config{
		Scheduler:    cfg,
		Clients:      func(e enginestate.Engine) live.Engine { return clients[e.ID] },
		ProbeTimeout: 200 * time.Millisecond,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	f.SetEngines(f.list)
	return f
}

func startEngine(t *testing.T, speed float64) (*enginesim.Engine, string) {
	t.Helper()
	cfg := enginesim.DefaultConfig()
	cfg.Model, cfg.Speed = model, speed
	engine, err := enginesim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	server := httptest.NewServer(engine.Handler())
	t.Cleanup(func() {
		_ = engine.Restart(ctx, 0) // lets go of requests that hang
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		server.CloseClientConnections()
		server.Close()
	})
	return engine, server.URL
}

func order(game, phase int) rollout.Request {
	return rollout.Request{
		ID:      fmt.Sprintf("r/%d/%d/%d", game/6, game%6, phase),
		Episode: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "r", Seq: rollout.GroupSeq(game / 6)}, Sample: game % 6},
		Model:   model, Prompt: fmt.Sprintf("Game %d, phase %d. You are FRANCE. Your orders:", game, phase),
		Constraint: rollout.Constraint{Kind: rollout.ChoiceConstraint,
			Choices: []string{"A PAR - BUR", "A PAR - PIC", "A PAR H"}},
		Sampling: rollout.Sampling{Temperature: 0.8, TopP: 1, MaxTokens: 32}, Seed: int64(100*game + phase),
	}
}

// play makes the calls of some games, each phase after the other, and returns the texts by request.
func (f *fleet) play(t *testing.T, games, phases int, beforePhase func(game, phase int)) map[string]string {
	t.Helper()
	var mu sync.Mutex
	texts := map[string]string{}
	var players sync.WaitGroup
	for game := range games {
		players.Go(func() {
			for phase := range phases {
				beforePhase(game, phase)
				req := order(game, phase)
				req.Timeout = rollout.Duration(f.timeout)
				answer, err := f.Complete(t.Context(), req)
				if err != nil {
					t.Errorf("%s: %v", req.ID, err)
					return
				}
				mu.Lock()
				texts[req.ID] = answer.Text
				mu.Unlock()
			}
		})
	}
	players.Wait()
	return texts
}

// TestFaultyEngines: games end with the very same turns whatever happens to the engines meanwhile: a repeated turn
// is the same turn, for it carries its seed.
func TestFaultyEngines(t *testing.T) {
	t.Parallel()
	calm := newFleet(t, 2, 16, dispatch.Config{}).play(t, 18, 5, func(int, int) {})

	stormy := newFleet(t, 3, 16, dispatch.Config{
		MaxTries: 10, ProbeAfter: 10 * time.Millisecond, MaxProbeAfter: 50 * time.Millisecond,
		OverloadPause: 10 * time.Millisecond, MaxOverloadPause: 50 * time.Millisecond,
	})
	faults := []enginesim.Fault{
		{Kind: enginesim.FaultDrop, Requests: 4},
		{Kind: enginesim.FaultOverload, Requests: 20},
		{Kind: enginesim.FaultTruncate, Bytes: 100, Requests: 3},
		{Kind: enginesim.FaultStatus, Status: 500, Requests: 3},
		{Kind: enginesim.FaultScaling, Requests: 5},
		{Kind: enginesim.FaultSlow, Factor: 3},
	}
	texts := stormy.play(t, 18, 5, func(game, phase int) {
		if game%3 != 0 {
			return
		}
		n := game/3 + 6*phase
		if err := stormy.engines[n%3].Inject(t.Context(), faults[n%len(faults)]); err != nil {
			t.Error(err)
		}
	})
	for id, text := range calm {
		if texts[id] != text {
			t.Errorf("%s is %q with faults, %q without", id, texts[id], text)
		}
	}
	st := stormy.Snapshot()
	if st.Completed != 90 || st.InFlight != 0 || st.Redispatched == 0 {
		t.Errorf("%+v", st.Stats)
	}
}

// TestHungAndRestartedEngine: nobody waits for a hung engine longer than a try's timeout, and it is used again when
// it is back.
func TestHungAndRestartedEngine(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, 8,
		dispatch.Config{ProbeAfter: 10 * time.Millisecond, MaxProbeAfter: 50 * time.Millisecond, MaxTries: 10})
	f.timeout = time.Second
	if err := f.engines[0].Inject(t.Context(), enginesim.Fault{Kind: enginesim.FaultHang}); err != nil {
		t.Fatal(err)
	}
	f.play(t, 12, 2, func(int, int) {})
	hung := f.Snapshot().ByEngine["e0"]
	if hung.ExecSec < f.timeout.Seconds() || hung.Requests != 0 {
		t.Errorf("the engine did not hang: %+v", hung)
	}
	if err := f.engines[0].Restart(t.Context(), 0); err != nil {
		t.Error(err)
	}
	for f.Snapshot().ByEngine["e0"].Requests == 0 {
		f.play(t, 12, 1, func(int, int) {})
	}
}

// TestUsageAddsUp: what the dispatcher counted is what the engines counted.
func TestUsageAddsUp(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, 4, dispatch.Config{})
	f.play(t, 12, 3, func(int, int) {})
	st := f.Snapshot()
	for _, e := range f.list {
		client, err := vllm.New(vllm.Config{BaseURL: e.URL})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		sample, err := client.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		mine := st.ByEngine[e.ID]
		if float64(mine.InputTokens) != sample.PromptTokens || float64(mine.OutputTokens) != sample.GenerationTokens {
			t.Errorf("engine %s counted %g + %g tokens, the dispatcher %d + %d", e.ID, sample.PromptTokens,
				sample.GenerationTokens, mine.InputTokens, mine.OutputTokens)
		}
	}
	if run := st.ByRun["r"]; run.Usage.Requests != 36 {
		t.Errorf("%+v", run)
	}
}

// TestAnswersAreTrainable: through the whole stack, an answer has equal lengths, the right model and its engine's name.
func TestAnswersAreTrainable(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 4, dispatch.Config{})
	got, err := f.Complete(t.Context(), order(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if got.Model != model || got.Engine != "e0" || len(got.TokenIDs) != len(got.Logprobs) ||
		len(got.PromptTokenIDs) == 0 ||
		!slices.Contains(order(0, 0).Constraint.Choices, got.Text) || got.Timing.Attempts != 1 || got.Timing.ExecSec <= 0 {
		t.Errorf("%+v", got)
	}
	bad := order(0, 1)
	bad.Sampling.MaxTokens = 0
	_, err = f.Complete(t.Context(), bad)
	var failure *rollout.Failure
	if !errors.As(err, &failure) || failure.Kind != rollout.Permanent {
		t.Errorf("a request without max_tokens: %v", err)
	}
}

// TestEqualPrompts: each caller gets the answer to its own prompt, and equal prompts get answers of their own.
func TestEqualPrompts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, 64, dispatch.Config{})
	const games = 48
	answers := make([]rollout.Completion, games)
	var players sync.WaitGroup
	for game := range games {
		players.Go(func() {
			req := order(game, 0)
			req.Constraint, req.Timeout = rollout.Constraint{}, rollout.Duration(f.timeout)
			if game%2 == 0 {
				req.Prompt = "the same for all of these:"
			}
			var err error
			if answers[game], err = f.Complete(t.Context(), req); err != nil {
				t.Error(err)
			}
		})
	}
	players.Wait()
	different := map[string]bool{}
	for game, a := range answers {
		want := len(order(game, 0).Prompt)
		if game%2 == 0 {
			different[a.Text] = true
			want = len("the same for all of these:")
		}
		if len(a.TokenIDs) == 0 || len(a.TokenIDs) != len(a.Logprobs) || a.Model != model || len(a.PromptTokenIDs) > want {
			t.Errorf("game %d: %+v", game, a)
		}
	}
	if len(different) < games/4 {
		t.Errorf("%d equal prompts got %d different answers", games/2, len(different))
	}
}
