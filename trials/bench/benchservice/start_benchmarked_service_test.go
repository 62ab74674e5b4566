package benchservice

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/game/diplomacyenv"
	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Every phase of a game of any length has seven turns, answered as the service's own client of engines wants it.
func TestGamesHaveTheTurnsThatAreCounted(t *testing.T) {
	t.Parallel()
	engine, err := StartEngine(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Stop()
	client, err := vllm.New(vllm.Config{BaseURL: engine.URL})
	if err != nil {
		t.Fatal(err)
	}
	env, err := diplomacyenv.FromOptions([]byte(`{"horizon_years":10}`))
	if err != nil {
		t.Fatal(err)
	}
	scenario, err := env.Scenario(1)
	if err != nil {
		t.Fatal(err)
	}
	player := episode.Player{Environment: env, Policy: client, Journal: unsaved{}, Beat: func(int, string) {},
		Now: time.Now}
	ep, _, err := player.Play(t.Context(), episode.Plan{
		Ref: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "turn"}}, Attempt: 1, Model: Model,
		Sampling: rollout.Sampling{Temperature: 1, MaxTokens: 256},
		Timeouts: runspec.Timeouts{Episode: rollout.Duration(time.Hour)},
	}, scenario, nil)
	if err != nil {
		t.Fatal(err)
	}
	if ep.Phases != 10*PhasesPerYear || ep.Usage.Requests != int64(Powers*ep.Phases) {
		t.Errorf("%d phases and %d turns in ten years", ep.Phases, ep.Usage.Requests)
	}
	if n := ep.Counts[diplomacyenv.CountFull]; n != ep.Usage.Requests {
		t.Errorf("%d of %d answers are legal and whole: %v", n, ep.Usage.Requests, ep.Counts)
	}
	if engine.prompt.Load() != ep.Usage.InputTokens || engine.generated.Load() != ep.Usage.OutputTokens {
		t.Errorf("the engine counts %d and %d tokens, the game %d and %d", engine.prompt.Load(), engine.generated.Load(),
			ep.Usage.InputTokens, ep.Usage.OutputTokens)
	}
}

type unsaved struct{}

func (unsaved) Save(context.Context, rollout.Checkpoint) error { return nil }

func TestMovesAreOfTheUnitsAskedFor(t *testing.T) {
	t.Parallel()
	prompt := "rules\n\nS1901M. Powers, units; centres:\n" +
		"FRANCE A PAR F BRE; BRE MAR PAR\nGERMANY A MUN; MUN\nNeutral; SPA POR\n" +
		"\nYou are FRANCE. Order your units:\nA PAR: BUR MUN SPA/NC\nF BRE: POR\nOrders:\n"
	seen := map[string]bool{}
	for seed := range uint64(20) {
		seen[moves(prompt, rand.New(rand.NewPCG(seed, 0)))] = true
	}
	if len(seen) != 2 || !seen["A PAR H\nF BRE H\n"] || !seen["A PAR - BUR\nF BRE H\n"] {
		t.Errorf("answered %v", seen)
	}
}

// An engine holds the answers to a phase and to those after it, and no others, until it lets go of them.
func TestHold(t *testing.T) {
	t.Parallel()
	prompt := func(phase string) string {
		return "rules\n\n" + phase + ", movement. The game ends after 1910. Powers, units; centres:\nFRANCE A PAR; PAR\n"
	}
	for phase, want := range map[string]int{"S1901M": 0, "F1901M": 1, "S1902M": 2, "F1950M": 99} {
		if got := phaseOf(prompt(phase)); got != want {
			t.Errorf("phase %s is number %d, want %d", phase, got, want)
		}
	}
	if got := phaseOf("1+1="); got >= 0 {
		t.Errorf("a canary is in phase %d", got)
	}
	synctest.Test(t, func(t *testing.T) {
		h := NewHold()
		h.Phase(2)
		passed := make(chan string, 3)
		for _, phase := range []string{"F1901M", "S1902M", "F1902M"} {
			go func() {
				if h.pass(t.Context(), prompt(phase)) {
					passed <- phase
				}
			}()
		}
		synctest.Wait()
		if len(passed) != 1 || h.Held() != 2 || <-passed != "F1901M" {
			t.Errorf("%d passed, %d held", len(passed), h.Held())
		}
		h.Phase(3)
		synctest.Wait()
		if len(passed) != 1 || h.Held() != 1 || <-passed != "S1902M" {
			t.Errorf("%d passed, %d held", len(passed), h.Held())
		}
		h.Release()
		synctest.Wait()
		if len(passed) != 1 || h.Held() != 0 {
			t.Errorf("%d passed, %d held", len(passed), h.Held())
		}
	})
}
