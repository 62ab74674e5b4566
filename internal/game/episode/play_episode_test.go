package episode_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// engine answers every request with the first choice that its constraint allows, one token per byte, and remembers
// what it was asked. It fails when fail says so.
type engine struct {
	mu   sync.Mutex
	seen []rollout.Request
	fail func(rollout.Request) error
}

func (e *engine) Complete(_ context.Context, req rollout.Request) (rollout.Completion, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		if err := e.fail(req); err != nil {
			return rollout.Completion{}, err
		}
	}
	e.seen = append(e.seen, req)
	text := "1" // where anything may be said
	if n := len(req.Constraint.Choices); n > 0 {
		text = req.Constraint.Choices[int(req.Seed%int64(n))]
	}
	c := rollout.Completion{
		Text: text, PromptTokenIDs: []int32{1, 2, 3}, FinishReason: rollout.FinishStop, Model: req.Model, Engine: "e1",
		Timing: rollout.Timing{ExecSec: 0.25, QueueSec: 0.5, Attempts: 1},
	}
	for i := range len(text) {
		c.TokenIDs = append(c.TokenIDs, int32(text[i]))
		c.Logprobs = append(c.Logprobs, -0.5)
	}
	return c, nil
}

// book keeps every saved progress.
type book []rollout.Checkpoint

func (b *book) Save(_ context.Context, p rollout.Checkpoint) error {
	*b = append(*b, p)
	return nil
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func board() *tictactoe.Env {
	env, err := tictactoe.New(tictactoe.Config{})
	if err != nil {
		panic(err) // the zero configuration is valid
	}
	return env
}

func player(e *engine, b *book) *episode.Player {
	return &episode.Player{
		Environment: board(), Policy: e, Journal: b,
		Beat: func(int, string) {}, Now: func() time.Time { return noon },
	}
}

func plan(attempt int) episode.Plan {
	return episode.Plan{
		Ref:     rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "t", Seq: 4}, Sample: 2},
		Attempt: attempt, Counted: attempt, Model: "t-v3", Version: 3, Seed: 7,
		Sampling: rollout.Sampling{Temperature: 1, MaxTokens: 8},
		Timeouts: runspec.Timeouts{Completion: rollout.Duration(time.Minute), Episode: rollout.Duration(time.Hour)},
	}
}

func scenario(t *testing.T) []byte {
	t.Helper()
	s, err := board().Scenario(7)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEveryTurnIsRecordedOnceWithItsVersion(t *testing.T) {
	t.Parallel()
	e, b := &engine{}, &book{}
	ep, game, err := player(e, b).Play(t.Context(), plan(1), scenario(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	turns := 0
	for _, tr := range ep.Trajectories {
		if err := tr.Validate(); err != nil {
			t.Error(err)
		}
		for _, turn := range tr.Turns {
			turns++
			if turn.PolicyVersion != 3 {
				t.Errorf("%s %s: version %d, want 3", tr.ID, turn.Phase, turn.PolicyVersion)
			}
		}
	}
	if turns != len(e.seen) || ep.Usage.Requests != int64(turns) {
		t.Errorf("%d turns recorded, %d counted, %d requests made", turns, ep.Usage.Requests, len(e.seen))
	}
	if len(ep.Trajectories) != 2 {
		t.Errorf("%d trajectories, want one per player", len(ep.Trajectories))
	}
	if len(game) == 0 || len(*b) != ep.Phases {
		t.Errorf("%d checkpoints for %d phases", len(*b), ep.Phases)
	}
	if want := 0.25 * float64(ep.Phases); ep.ModelSec != want {
		t.Errorf("critical path at engines %v s, want %v", ep.ModelSec, want)
	}
}

// An attempt that dies in any phase is continued by the next one at that phase: no finished turn is asked for again,
// and the result holds every phase exactly once.
func TestResumesAtTheLastFinishedPhase(t *testing.T) {
	t.Parallel()
	whole, _, err := player(&engine{}, &book{}).Play(t.Context(), plan(1), scenario(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	for dies := range whole.Phases {
		t.Run(fmt.Sprintf("phase %d", dies), func(t *testing.T) {
			t.Parallel()
			first, b := &engine{}, &book{}
			lost := errors.New("power cut")
			first.fail = func(rollout.Request) error {
				if len(*b) == dies {
					return lost
				}
				return nil
			}
			if _, _, err := player(first, b).Play(t.Context(), plan(1), scenario(t), nil); !errors.Is(err, lost) {
				t.Fatalf("got %v, want the power cut", err)
			}
			var from *rollout.Checkpoint
			if dies > 0 {
				from = &(*b)[dies-1]
			}
			second := &engine{}
			ep, _, err := player(second, b).Play(t.Context(), plan(2), scenario(t), from)
			if err != nil {
				t.Fatal(err)
			}
			asked := map[string]bool{}
			for _, req := range append(first.seen, second.seen...) {
				key := strings.TrimSuffix(strings.TrimSuffix(req.ID, "/1"), "/2")
				if asked[key] {
					t.Errorf("turn %s was generated twice", key)
				}
				asked[key] = true
			}
			if ep.Attempts != 2 || int(ep.Usage.Requests) != len(asked) {
				t.Errorf("attempts %d, %d requests counted of %d", ep.Attempts, ep.Usage.Requests, len(asked))
			}
			if moves := ep.Counts[tictactoe.CountLegal]; int(moves) != len(asked) {
				t.Errorf("%d legal moves counted of %d", moves, len(asked))
			}
		})
	}
}

func TestSameSeedSameEpisode(t *testing.T) {
	t.Parallel()
	a, _, errA := player(&engine{}, &book{}).Play(t.Context(), plan(1), scenario(t), nil)
	b, _, errB := player(&engine{}, &book{}).Play(t.Context(), plan(1), scenario(t), nil)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if !reflect.DeepEqual(a, b) {
		t.Error("two plays of one plan differ")
	}
}

func TestFailuresAreTypedAndNeverRewards(t *testing.T) {
	t.Parallel()
	slow := plan(1)
	slow.Timeouts.Episode = rollout.Duration(time.Millisecond)
	for _, tt := range []struct {
		name     string
		plan     episode.Plan
		scenario []byte
		fail     error
		kind     rollout.FailureKind
	}{
		{"engine gone", plan(1), nil, rollout.Fail(rollout.Retryable, "engine_gone", errors.New("reset")), rollout.Retryable},
		{"bad request", plan(1), nil, rollout.Fail(rollout.Permanent, "bad_request", errors.New("400")), rollout.Permanent},
		{"broken scenario", plan(1), []byte("junk"), nil, rollout.GameFault},
		{"deadline", slow, nil, nil, rollout.GameFault},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			start := tt.scenario
			if start == nil {
				start = scenario(t)
			}
			_, _, err := player(&engine{fail: func(rollout.Request) error {
				return tt.fail
			}}, &book{}).Play(t.Context(), tt.plan, start, nil)
			if err == nil || rollout.KindOf(err) != tt.kind {
				t.Errorf("got %v (%s), want a %s failure", err, rollout.KindOf(err), tt.kind)
			}
		})
	}
}
