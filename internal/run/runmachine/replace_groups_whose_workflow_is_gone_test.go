package runmachine

import (
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// The last group in play ends without a word, and the account that is read in the same breath says that it is ready:
// the run goes back to waiting. It went on looking for a group that was not in play any more, and its workflow's task
// had no end.
func TestNobodyIsLookedForWhereNobodyPlays(t *testing.T) {
	t.Parallel()
	w := newWorld(runspec.Spec{
		Name: "demo", Steps: 9, Group: runspec.GroupSpec{Samples: 1, MinSamples: 1},
		Buffer: runspec.BufferSpec{Depth: 2, GroupsPerStep: 3, MaxStaleness: 8, OnStale: runspec.DropStale},
	})
	w.event(Began{New: true})
	last := w.m.Playing[len(w.m.Playing)-1].Seq
	for _, g := range slices.Clone(w.m.Playing) {
		w.commit(g.Seq)
		if g.Seq != last {
			w.event(GroupEnded{Seq: g.Seq})
		}
	}
	w.m.needsSync = true // a hint came together with what follows
	w.perform(w.m.Handle(w.now, GroupClosed{Seq: last}))
	for range 9 {
		if !w.m.Awake() {
			return
		}
		w.wake(false)
	}
	t.Errorf("the run does not come to rest: %s", account(w.m))
}
