package tictactoe

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// first answers with the first choice that there is: X gets the row of a1, c1 and b2.
type first struct{ asked map[string]bool }

func (f first) Complete(_ context.Context, r rollout.Request) (rollout.Completion, error) {
	f.asked[r.Model] = true
	return rollout.Completion{Text: r.Constraint.Choices[0], TokenIDs: []int32{1}, Logprobs: []float32{0},
		PromptTokenIDs: []int32{1}, FinishReason: rollout.FinishStop}, nil
}

type noJournal struct{}

func (noJournal) Save(context.Context, rollout.Checkpoint) error { return nil }

// TestOrderOfPlayers: a finished game says who ended before whom: the learner under its own name, a version that the
// league drew as a version, and other fixed policies as such. A game of one player says nothing.
func TestOrderOfPlayers(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]rollout.Order{
		`{"opponent":"policy:v3"}`:     "v9@X > v3@O",
		`{"opponent":"policy:frozen"}`: "v9@X > policy:frozen@O",
		`{}`:                           "",
	} {
		env, err := FromOptions(json.RawMessage(options))
		if err != nil {
			t.Fatal(err)
		}
		asks := first{map[string]bool{}}
		player := &episode.Player{Environment: env, Policy: asks, Journal: noJournal{}, Now: time.Now,
			Beat: func(int, string) {}, Watch: &episode.Watch{}}
		scenario, err := env.Scenario(1)
		if err != nil {
			t.Fatal(err)
		}
		ep, _, err := player.Play(t.Context(), episode.Plan{Attempt: 1, Model: "demo-v9", Version: 9, Player: "v9",
			Fixed:    map[string]string{"v3": "demo-v3", "frozen": "demo:frozen"},
			Timeouts: runspec.Timeouts{Episode: rollout.Duration(time.Minute), Completion: rollout.Duration(time.Minute)}},
			scenario, nil)
		if err != nil || ep.Order != want {
			t.Errorf("%s: %q, %v; want %q", options, ep.Order, err, want)
		}
	}
}
