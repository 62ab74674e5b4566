package badenginetest_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/badenginetest"
	"github.com/millrace/millrace/internal/engine/dispatch/live"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/enginesim"
)

const maxTokens = 8

// journal forgets what a game saves.
type journal struct{}

func (journal) Save(context.Context, rollout.Checkpoint) error { return nil }

// TestNothingThatViolatesItsRequestIsStored: beside each hostile engine stands a sound one. Every game ends, and
// every turn of it is one that its request allows. The hostile engine is asked, and the process does not grow. Not
// parallel: it counts the process's memory.
func TestNothingThatViolatesItsRequestIsStored(t *testing.T) {
	cfg := enginesim.DefaultConfig()
	cfg.Speed = 1000
	sim, err := enginesim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- sim.Run(ctx) }()
	sound := httptest.NewServer(sim.Handler())
	defer func() {
		stop()
		<-ended
		sound.CloseClientConnections()
		sound.Close()
	}()
	for _, b := range badenginetest.Behaviours() {
		t.Run(b.Name, func(t *testing.T) {
			var asked atomic.Int64
			bad := httptest.NewUnstartedServer(b.Engine(sim.Handler(), func(*http.Request) bool { asked.Add(1); return true }))
			bad.Config.ErrorLog = log.New(io.Discard, "", 0)
			bad.Start()
			defer bad.Close()
			defer bad.CloseClientConnections()
			before := memory()
			for seed := range int64(3) {
				for i, turn := range play(t, sound.URL, bad.URL, cfg.Model, seed) {
					hold(t, i, turn)
				}
			}
			if asked.Load() == 0 {
				t.Error("the hostile engine was never asked")
			}
			if grown := memory() - before; grown > 100<<20 {
				t.Errorf("the process has grown by %d MiB", grown>>20)
			}
		})
	}
}

// memory is what the process has from the system, less what it gave back.
func memory() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}

// play plays one game on both engines and returns its turns.
func play(t *testing.T, sound, bad, model string, seed int64) []rollout.Turn {
	t.Helper()
	d := live.New(live.Config{Clients: func(e enginestate.Engine) live.Engine {
		client, err := vllm.New(vllm.Config{BaseURL: e.URL})
		if err != nil {
			t.Error(err)
			return nil
		}
		return client
	}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	defer func() { stop(); <-ended }()
	var engines []enginestate.Engine
	for id, url := range map[rollout.EngineID]string{"a-bad": bad, "b-sound": sound} {
		engines = append(engines, enginestate.Engine{ID: id, URL: url, State: enginestate.EngineReady, MaxInFlight: 8,
			Models: []string{model}})
	}
	d.SetEngines(engines)
	environment, err := tictactoe.New(tictactoe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	player := &episode.Player{Environment: environment, Policy: d, Journal: journal{},
		Beat: func(int, string) {}, Now: time.Now}
	plan := episode.Plan{
		Ref:     rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "t", Seq: rollout.GroupSeq(seed)}},
		Attempt: 1, Counted: 1, Model: model, Seed: seed, Sampling: rollout.Sampling{Temperature: 1, TopP: 1,
			MaxTokens: maxTokens},
		Timeouts: runspec.Timeouts{Completion: rollout.Duration(20 * time.Second), Episode: rollout.Duration(time.Minute)},
	}
	scenario, err := player.Scenario(plan)
	if err != nil {
		t.Fatal(err)
	}
	played, _, err := player.Play(ctx, plan, scenario, nil)
	if err != nil {
		t.Fatalf("the game did not go on elsewhere: %v", err)
	}
	var turns []rollout.Turn
	for _, trajectory := range played.Trajectories {
		turns = append(turns, trajectory.Turns...)
	}
	return turns
}

// hold reports what of a turn its request does not allow.
func hold(t *testing.T, i int, turn rollout.Turn) {
	t.Helper()
	outside := func(id int32) bool { return id < 0 || id >= 1<<20 }
	switch {
	case len(turn.TokenIDs) == 0 || len(turn.TokenIDs) > maxTokens:
		t.Errorf("turn %d has %d tokens of at most %d", i, len(turn.TokenIDs), maxTokens)
	case len(turn.TokenIDs) != len(turn.Logprobs):
		t.Errorf("turn %d has %d tokens and %d logprobs", i, len(turn.TokenIDs), len(turn.Logprobs))
	case slices.ContainsFunc(turn.TokenIDs, outside), slices.ContainsFunc(turn.PromptTokenIDs, outside):
		t.Errorf("turn %d has ids of no vocabulary", i)
	case slices.ContainsFunc(turn.Logprobs, func(v float32) bool { return !(v >= -9999 && v <= 0.01) }):
		t.Errorf("turn %d has logprobs %v", i, turn.Logprobs)
	case fmt.Sprint(turn.Engine) != "b-sound":
		t.Errorf("turn %d is of engine %s", i, turn.Engine)
	}
}
