package workload_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacyenv"
	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// TestBotGames plays games of both environments: one has bots, of the other answers are drawn. A game is the same
// whatever was asked before.
func TestBotGames(t *testing.T) {
	t.Parallel()
	diplomacy, err := diplomacyenv.FromOptions(json.RawMessage(`{"horizon_years": 2}`))
	if err != nil {
		t.Fatal(err)
	}
	small, err := tictactoe.FromOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	spec := runspec.Spec{Name: "demo", Model: "base", Seed: 7, Group: runspec.GroupSpec{Samples: 2},
		Sampling: rollout.Sampling{MaxTokens: 120}}
	ref := func(seq rollout.GroupSeq, sample int) rollout.EpisodeRef {
		return rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "demo", Seq: seq}, Sample: sample}
	}
	for name, env := range map[string]episode.Environment{"diplomacy": diplomacy, "drawn": diplomacy, "tictactoe": small} {
		games := workload.NewBotGames(env, spec, 2, name == "drawn")
		others := workload.NewBotGames(env, spec, 2, name == "drawn")
		others.Game(ref(1, 1))
		first := games.Game(ref(0, 0))
		if err := games.Err(); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(first, others.Game(ref(0, 0))) ||
			!reflect.DeepEqual(games.Game(ref(2, 0)), others.Game(ref(2, 0))) {
			t.Errorf("%s: the same game is another one when others were asked for before", name)
		}
		comesAgain(t, name, first, games.Game(ref(2, 0)))
		turns := 0
		for _, phase := range first.Phases {
			for _, turn := range phase.Turns {
				turns++
				last := turn.Shared[len(turn.Shared)-1]
				if turn.Prompt < 10 || turn.Output < 1 || last.Tokens > turn.Prompt || last.Tokens <= turn.Prompt-16 {
					t.Errorf("%s: turn %+v", name, turn)
				}
			}
		}
		if len(first.Phases) < 2 || turns < len(first.Phases) || first.Agents < 1 {
			t.Errorf("%s: %d phases with %d turns of %d agents", name, len(first.Phases), turns, first.Agents)
		}
		t.Logf("%s: %d phases, %d turns, %d agents, zero variance %v", name, len(first.Phases), turns, first.Agents,
			games.ZeroVariance(ref(0, 0).GroupRef))
	}
}

// comesAgain reports a game of a later round that has other lengths, or that prefix caches know for the game before.
func comesAgain(t *testing.T, name string, before, again workload.Game) {
	t.Helper()
	same, all := 0, 0
	for i, phase := range before.Phases {
		for j, turn := range phase.Turns {
			other := again.Phases[i].Turns[j]
			if other.Prompt != turn.Prompt || other.Output != turn.Output || len(other.Shared) != len(turn.Shared) {
				t.Fatalf("%s: phase %d: %+v comes again as %+v", name, i, turn, other)
			}
			known := true
			for k, p := range turn.Shared {
				all++
				if other.Shared[k].Key == p.Key {
					if same++; !known {
						t.Fatalf("%s: phase %d: what differs before its block %d is the same there", name, i, k)
					}
				} else {
					known = false
				}
			}
		}
	}
	if same == 0 || same == all {
		t.Errorf("%s: %d of %d blocks are those of the game before; want those that all groups have", name, same, all)
	}
}
