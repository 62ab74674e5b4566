package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// agreement is homes in memory. Answers take a while.
type agreement struct {
	takes time.Duration
	fails error

	mu     sync.Mutex
	at     map[string]rollout.EngineID
	claims int
}

func (a *agreement) Claim(ctx context.Context, group rollout.GroupRef, part int, proposal, lost rollout.EngineID) (
	rollout.EngineID, error) {
	select {
	case <-time.After(a.takes):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.claims++
	key := fmt.Sprint(group, part)
	if at := a.at[key]; at == "" || at == lost {
		a.at[key] = proposal
	}
	return a.at[key], a.fails
}

var perEngine = runspec.Dispatch{Policy: runspec.LeastTokens, GroupPerEngine: 8}

// began is on which engines the first turns of a group's games were made, by two workers at the same moment.
func began(t *testing.T, workers []*rig, group, samples int) map[rollout.EngineID]int {
	t.Helper()
	var results []<-chan result
	for i := range samples {
		results = append(results, workers[i%len(workers)].call(t.Context(), turn(name(i), group, i)))
	}
	at := map[rollout.EngineID]int{}
	for _, r := range results {
		got := <-r
		if got.err != nil {
			t.Error(got.err)
		}
		at[got.Engine]++
	}
	return at
}

// TestGroupsBeginOnOneEngine whichever workers play their games; groups spread over the engines; and a lost engine's
// groups begin on another one, the same for all workers.
func TestGroupsBeginOnOneEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		homes := &agreement{takes: time.Millisecond, at: map[string]rollout.EngineID{}}
		engines := []*fake{{takes: time.Second}, {takes: time.Second}, {takes: time.Second}}
		var workers []*rig
		for range 2 {
			r := newRig(t, Config{Homes: homes}, 100, engines...)
			r.SetRules("r", perEngine)
			workers = append(workers, r)
		}
		used := map[rollout.EngineID]int{}
		for group := range 12 {
			at := began(t, workers, group, 8)
			if len(at) != 1 {
				t.Errorf("group %d began on %v", group, at)
			}
			for id := range at {
				used[id]++
			}
		}
		for id, n := range used {
			if n < 2 || len(used) != 3 {
				t.Errorf("%d of 12 groups began on %s: %v", n, id, used)
			}
		}
		claims := homes.claims
		if claims > 24 {
			t.Errorf("%d questions for 12 groups and two workers", claims)
		}
		first := homes.at[fmt.Sprint(rollout.GroupRef{Run: "r", Seq: 3}, 0)]
		for _, r := range workers {
			r.SetEngines(r.with(first, enginestate.EngineLost))
		}
		if at := began(t, workers, 3, 8); len(at) != 1 || at[first] > 0 {
			t.Errorf("games of a group whose engine %s is lost began on %v", first, at)
		}
		if n := homes.claims - claims; n > 4 {
			t.Errorf("%d questions about a lost engine", n)
		}
		for _, r := range workers {
			r.empty()
			r.stop()
		}
	})
}

// TestGamesBeginWithoutAgreement: nobody waits for long, whatever becomes of the answer.
func TestGamesBeginWithoutAgreement(t *testing.T) {
	t.Parallel()
	for name, homes := range map[string]*agreement{
		"no answer": {takes: time.Hour}, "an error": {takes: time.Millisecond, fails: errors.New("as told")},
		"an engine that is not here": {at: map[string]rollout.EngineID{"r/10": "z"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if homes.at == nil {
					homes.at = map[string]rollout.EngineID{}
				}
				r := newRig(t, Config{Homes: homes}, 10, &fake{takes: time.Second})
				r.SetRules("r", perEngine)
				ctx, cancel := context.WithCancel(t.Context())
				gone := r.call(ctx, turn("gone", 1, 0))
				synctest.Wait()
				cancel()
				if got := <-gone; got.err == nil {
					t.Error("a call that was cancelled has an answer")
				}
				if got := <-r.call(t.Context(), turn("q", 1, 1)); got.err != nil || got.at > 2*time.Second+10*time.Millisecond {
					t.Errorf("%v after %v", got.err, got.at)
				}
				r.empty()
				r.stop()
			})
		})
	}
}
