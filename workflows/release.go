package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
)

// shrink lets go of groups that a change of the run has made too many: those that are queued, the oldest first, for
// they would be the stalest. What is being played or is ready has cost the engines something and is used up by the
// steps to come; what is claimed is the trainer's.
func (r *run) shrink(ctx workflow.Context) {
	if !r.shrunk {
		return
	}
	r.shrunk = false
	room, _ := r.room()
	surplus := r.outstanding() - room
	if surplus <= 0 {
		return
	}
	var seqs []rollout.GroupSeq
	for _, seq := range r.queued {
		if len(seqs) < surplus && r.plays(seq) {
			seqs = append(seqs, seq)
		}
	}
	r.release(ctx, activities.ReleaseInput{Run: r.Spec.Name, Seqs: seqs, Code: activities.Shrunk, Queued: true})
}

// freshen lets go of groups in play that will be dropped as stale however they end, because every turn of theirs is
// made with the version that they were launched with.
func (r *run) freshen(ctx workflow.Context) {
	if r.freshened == r.Version || r.unbounded || r.Spec.Buffer.OnStale != rollout.DropStale || r.Spec.PolicyRefresh == rollout.RefreshTurn {
		return
	}
	r.freshened = r.Version
	var seqs []rollout.GroupSeq
	for _, p := range r.Playing {
		if int64(r.Version-p.Version) > r.Spec.Buffer.MaxStaleness {
			seqs = append(seqs, p.Seq)
		}
	}
	r.release(ctx, activities.ReleaseInput{Run: r.Spec.Name, Seqs: seqs, Code: activities.Stale})
}

// release takes groups out of the account and calls off their games.
func (r *run) release(ctx workflow.Context, in activities.ReleaseInput) {
	if len(in.Seqs) == 0 {
		return
	}
	short := workflow.WithActivityOptions(ctx, shortActivity())
	var released []rollout.GroupSeq
	if err := workflow.ExecuteActivity(short, acts.ReleaseGroups, in).Get(ctx, &released); err != nil {
		workflow.GetLogger(ctx).Error("release groups", "groups", in.Seqs, "error", err)
		return
	}
	var cancelled []rollout.GroupSeq
	for _, seq := range released {
		switch {
		case !r.plays(seq):
			continue
		case r.paced:
			cancelled = append(cancelled, seq)
		}
		r.end(seq, in.Code)
		if !r.paced {
			r.call(ctx, seq)
		}
	}
	r.cancelMeanwhile(ctx, cancelled)
	r.touched = r.touched || len(released) > 0
	if !slices.Equal(released, in.Seqs) {
		r.stale = true // some went on meanwhile: the buffer knows how far
	}
}

// call calls off a group's games; one that is over hears nothing.
func (r *run) call(ctx workflow.Context, seq rollout.GroupSeq) {
	id := r.ids.GroupID(rollout.GroupRef{Run: r.Spec.Name, Seq: seq})
	if err := workflow.RequestCancelExternalWorkflow(ctx, id, "").Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Info("group already over", "group", id, "error", err)
	}
}
