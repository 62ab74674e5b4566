package workflows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/rollout"
)

// lost reports whether Redis has forgotten the run, wholly or so far that steps which were granted are not any more.
func (r *run) lost(a buffer.Account, err error) bool {
	if err != nil {
		return activities.Code(err) == string(rollout.NoSuchRun)
	}
	return int(a.ClaimedTo) < r.Claimed
}

// restoreTimeout bounds one attempt at a restoration, which reads the files of fixed policies.
const restoreTimeout = time.Minute

// restore tells an empty Redis how far the run had come, and answers the account from there. Batches that were
// granted and not recorded are formed anew, of other groups; nothing that was recorded is given out again.
func (r *run) restore(ctx workflow.Context) (buffer.Account, error) {
	r.Changes++
	options := shortActivity()
	options.StartToCloseTimeout, options.HeartbeatTimeout = restoreTimeout, loadHeartbeat
	ctx = workflow.WithActivityOptions(ctx, options)
	var account buffer.Account
	err := workflow.ExecuteActivity(ctx, acts.RestoreRun, activities.RestoreInput{
		Spec: r.given, Status: r.status(), Key: r.changeKey(),
	}).Get(ctx, &account)
	return account, err
}

// difference is how a buffer's account differs from the run's; empty when it does not.
func (s *runState) difference(a buffer.Account) string {
	var parts []string
	count := func(what string, seqs []rollout.GroupSeq, in func(rollout.GroupSeq) bool) {
		n := 0
		for _, seq := range seqs {
			if in(seq) {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d groups %s", n, what))
		}
	}
	count("ready that were thought in play", a.Ready, s.plays)
	count("gone that were thought ready", s.Ready, func(seq rollout.GroupSeq) bool { return !slices.Contains(a.Ready, seq) })
	if int(a.ClaimedTo) != s.Claimed {
		parts = append(parts, fmt.Sprintf("%d steps claimed, not %d", a.ClaimedTo, s.Claimed))
	}
	if int(a.NextStep) != s.Completed {
		parts = append(parts, fmt.Sprintf("%d steps completed, not %d", a.NextStep, s.Completed))
	}
	return strings.Join(parts, ", ")
}

func (s *runState) plays(seq rollout.GroupSeq) bool {
	return slices.ContainsFunc(s.Playing, func(p playing) bool { return p.Seq == seq })
}

// repaired reports a difference that nobody had told the run of: a notification was lost.
func (r *run) repaired(difference string) {
	if difference == "" {
		return
	}
	r.Changes++
	r.note("corrected its account by the buffer's: " + difference)
}

// How often groups that were begun by earlier executions are looked for, and how many at a time; lookedBefore is
// how often histories without the patch "watch-groups" look for all. One that is missing twice was ended by
// somebody else's hand, such as Temporal's own tools, and told nobody.
const (
	lookEvery    = 10 * time.Second
	lookedBefore = time.Minute
	maxLook      = 256
)

// watch hears when a group that this execution has started ends. A group whose end the run was not told is
// suspected of having been ended by somebody else, and looked for at once.
func (r *run) watch(ctx workflow.Context, seq rollout.GroupSeq, group workflow.ChildWorkflowFuture) {
	if r.watched == nil {
		return
	}
	r.watched[seq] = true
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := group.Get(ctx, nil)
		delete(r.watched, seq)
		if r.plays(seq) && !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
			r.Missing, r.suspicious = append(r.Missing, seq), true
		}
	})
}

// look replaces groups in play whose workflow is gone.
func (r *run) look(ctx workflow.Context) {
	every := lookEvery
	if r.watched == nil {
		every = lookedBefore
	}
	if !r.suspicious && workflow.Now(ctx).Sub(r.Looked) < every || len(r.Playing) == 0 {
		return
	}
	r.Looked, r.suspicious = workflow.Now(ctx), false
	if workflow.GetVersion(ctx, "look-for-groups", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return
	}
	in := activities.LookInput{Run: r.Spec.Name, Seqs: r.toLookFor()}
	if len(in.Seqs) == 0 {
		return
	}
	before := r.Missing
	r.Missing = nil
	ctx = workflow.WithActivityOptions(ctx, shortActivity())
	var gone []rollout.GroupSeq
	if err := workflow.ExecuteActivity(ctx, acts.LookForGroups, in).Get(ctx, &gone); err != nil {
		workflow.GetLogger(ctx).Warn("look for groups", "error", err)
		r.Missing = append(before, r.Missing...)
		return
	}
	for _, seq := range gone {
		switch {
		case !r.plays(seq):
		case slices.Contains(before, seq):
			r.bury(ctx, seq)
		default:
			r.Missing = append(r.Missing, seq)
		}
	}
}

// toLookFor is the groups to look for now: those missing before, and the next of those whose end this execution
// would not hear, in turn. Without the patch it is all in play.
func (r *run) toLookFor() []rollout.GroupSeq {
	var seqs, later []rollout.GroupSeq
	for _, p := range r.Playing {
		switch {
		case r.watched == nil || slices.Contains(r.Missing, p.Seq):
			seqs = append(seqs, p.Seq)
		case !r.watched[p.Seq]:
			later = append(later, p.Seq)
		}
	}
	next, _ := slices.BinarySearch(later, r.LookNext)
	later = append(later[next:], later[:next]...)
	if len(later) > maxLook {
		later = later[:maxLook]
	}
	if len(later) > 0 {
		r.LookNext = later[len(later)-1] + 1
	}
	return append(seqs, later...)
}

// vanished is the code of groups whose workflow is gone.
const vanished = "vanished"

// bury takes a vanished group out of the account. One that was committed before it vanished counts as ready; if it has
// been claimed since, the next account says so.
func (r *run) bury(ctx workflow.Context, seq rollout.GroupSeq) {
	ref := rollout.GroupRef{Run: r.Spec.Name, Seq: seq}
	err := workflow.ExecuteActivity(ctx, acts.DiscardGroup, activities.DiscardInput{Ref: ref, Code: vanished}).Get(ctx, nil)
	code := vanished
	if err != nil {
		code = ""
	}
	r.end(seq, code)
	r.stale, r.touched = true, true
}
