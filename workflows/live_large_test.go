package workflows_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// stumbling has a game that fails once and goes on, and one that no engine serves for a moment and that rests.
func stumbling(w *liveWorld) {
	w.spec.Steps = 1
	var mu sync.Mutex
	failed := map[rollout.EpisodeRef]bool{}
	w.policy.fail = func(req rollout.Request) error {
		mu.Lock()
		defer mu.Unlock()
		if req.Episode.Sample != 0 || failed[req.Episode] {
			return nil
		}
		failed[req.Episode] = true
		if req.Episode.Seq%2 == 0 {
			return rollout.Fail(rollout.Retryable, "engine_gone", errors.New("the engine left"))
		}
		return rollout.Fail(rollout.Retryable, rollout.CodeUnserved, errors.New("no engine serves the model"))
	}
	w.start()
	w.claim(0)
	w.complete(0)
	w.ends(runstatus.RunCompleted)
}

// heavy launches more at once than Temporal takes in one task: its groups are started in lots. So many are let go, too.
func heavy(w *liveWorld) {
	w.spec.Buffer.GroupsPerStep = largeCount
	w.stoppedWhenLarge(2 * largeCount)
}

// wide has a group with more games than Temporal takes in one task.
func wide(w *liveWorld) {
	w.spec.Group.Samples, w.spec.Group.MinSamples = largeCount, largeCount
	w.spec.Buffer.GroupsPerStep = 1
	w.stoppedWhenLarge(largeCount)
}

// Some more inputs of such a size than a message to Temporal may have, 4 MB.
const (
	largeCount = 16
	largeBytes = 300_000
)

// stoppedWhenLarge stops the run when all its games are played, every one of which carries a large input.
func (w *liveWorld) stoppedWhenLarge(games int64) {
	w.spec.Model = strings.Repeat("m", largeBytes)
	w.spec.Steps, w.spec.Buffer.Depth = 1, 1
	w.policy.holds = func(rollout.Request) bool { return true }
	w.start()
	w.until("all games to begin", func() error {
		if held := w.policy.held.Load(); held < games {
			return fmt.Errorf("%d of %d have", held, games)
		}
		return nil
	})
	_, err := w.control.Stop(w.ctx, w.spec.Name, "enough")
	w.must("stop", err)
	w.ends(runstatus.RunStopped)
	w.until("groups to end", func() error {
		counts, err := w.buffer.Counts(w.ctx, w.spec.Name)
		if groups := int64(w.spec.Buffer.GroupsPerStep); err == nil && int64(counts.Dropped) < groups {
			err = fmt.Errorf("%d of %d were dropped", counts.Dropped, groups)
		}
		return err
	})
}
