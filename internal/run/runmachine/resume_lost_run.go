package runmachine

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Lost is the surviving knowledge of a run whose workflow is gone.
type Lost struct {
	Spec    runspec.Spec        // as the run was started with
	Status  runstatus.RunStatus // as its workflow mirrored it last
	Account Account
	// Unheard is the groups that it may have launched and that the buffer has not heard of yet.
	Unheard []rollout.GroupSeq
}

// Resume is a lost run as far as it is known: at its version, its step and its next group, never at the beginning.
// Groups of the account that have no workflow any more, and launches that never happened, are found out by the run
// itself.
func Resume(lost Lost, now time.Time) *Run {
	was, a := lost.Status, lost.Account
	r := &Run{
		Spec: was.Spec, State: runstatus.RunRunning, StartedAt: was.StartedAt,
		Policies: slices.Clone(was.Policies), Failures: was.Failures,
		Claimed: a.Claimed, Completed: a.Completed, Refills: a.Refills, Version: max(was.PolicyVersion, a.Version),
		NextSeq: max(rollout.GroupSeq(was.Launched), a.Highest+1),
		Bytes:   a.Bytes, GroupBytes: a.GroupBytes,
		Changes:   int(now.Unix()), // above every earlier one
		LoadProbe: was.LoadProbe,
		Mark:      a.Mark, Rollbacks: was.Rollbacks, Rollback: was.Rollback, Mirrors: a.Mirrors,
	}
	if r.Failures == nil {
		r.Failures = map[rollout.Code]int64{}
	}
	if r.StartedAt.IsZero() { // it was lost before its first word
		r.Spec, r.StartedAt = lost.Spec, now
	}
	r.adopt(a, lost.Unheard, nil)
	if r.Claimed > r.Completed {
		r.Holds = []Hold{{r.oldestServing(), r.Claimed}}
	}
	return r
}
