package workflows_test

import (
	"errors"
	"strings"
	"sync"

	"github.com/millrace/millrace/internal/rollout"
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
	w.ends(rollout.RunCompleted)
}

// heavy launches more at once than Temporal takes in one task: its groups are started in lots.
func heavy(w *liveWorld) {
	w.large()
	w.spec.Buffer.GroupsPerStep = largeCount
	w.start()
	w.claim(0)
	w.complete(0)
	w.ends(rollout.RunCompleted)
}

// wide has a group with more games than Temporal takes in one task.
func wide(w *liveWorld) {
	w.large()
	w.spec.Group.Samples, w.spec.Group.MinSamples = largeCount, largeCount
	w.spec.Buffer.GroupsPerStep = 1
	w.start()
	w.claim(0)
	w.complete(0)
	w.ends(rollout.RunCompleted)
}

// Some more inputs of such a size than one task has room for.
const (
	largeCount = 15
	largeBytes = 140_000
)

func (w *liveWorld) large() {
	w.spec.Model = strings.Repeat("m", largeBytes)
	w.spec.Steps, w.spec.Buffer.Depth = 1, 1
}
