package workflows

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/rollout"
)

// A run whose workflow is gone, because somebody terminated it or Temporal lost it, can go on: its status and the
// buffer's account say how far it had come. It goes on at its version, its step and its next group, never at the
// beginning.

// Lost is all that is known of a run whose workflow is gone.
type Lost struct {
	Spec    rollout.Spec      // as the run was started with
	Status  rollout.RunStatus // as its workflow mirrored it last
	Account buffer.Account
	// Unheard is the groups that it may have launched and that the buffer has not heard of yet.
	Unheard []rollout.GroupSeq
}

// Resume begins a run's workflow anew where the lost one was. A workflow that runs is left as it is.
func (c *Client) Resume(ctx context.Context, lost Lost) (rollout.RunStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	run := lost.Spec.Name
	state := resumed(lost, time.Now())
	_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                                       c.Deployment.RunID(run),
		TaskQueue:                                c.Deployment.Queues().Control,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		Memo:                                     map[string]any{"spec": lost.Spec},
	}, Run, RunInput{
		Spec: lost.Spec, Queues: c.Deployment.Queues().Of(run), Deployment: c.Deployment, State: state, Resumed: true,
	})
	var already *serviceerror.WorkflowExecutionAlreadyStarted
	if err != nil && !errors.As(err, &already) {
		return rollout.RunStatus{}, c.failed("resume run", run, err)
	}
	return state.status(), nil
}

// resumed is the state of a lost run as far as it is known. Groups of the account that have no workflow any more, and
// launches that never happened, are found out by the run itself. Of which version its groups are is not known, so that they are taken for the
// oldest that serves.
func resumed(lost Lost, now time.Time) *runState {
	was, a := lost.Status, lost.Account
	s := &runState{
		Spec: was.Spec, State: rollout.RunRunning, StartedAt: was.StartedAt, Policies: slices.Clone(was.Policies), Failures: was.Failures,
		Claimed: int(a.ClaimedTo), Completed: int(a.NextStep), Version: max(was.PolicyVersion, a.Version),
		NextSeq: max(rollout.GroupSeq(was.Launched), a.Highest+1),
		Bytes:   a.Counts.Bytes, GroupBytes: a.GroupBytes,
		Changes: int(now.Unix()), // above every earlier one
	}
	if s.Failures == nil {
		s.Failures = map[string]int64{}
	}
	if s.StartedAt.IsZero() { // it was lost before its first word
		s.Spec, s.StartedAt = lost.Spec, now
	}
	s.adopt(a, lost.Unheard, nil)
	if s.Claimed > s.Completed {
		s.Holds = []hold{{s.oldestServing(), s.Claimed}}
	}
	return s
}

// adopt counts the outstanding groups of an account that the run does not know as its own: an execution that was lost,
// or reset to an earlier point, launched them. So do launches the buffer has not heard of. known is what the run knew when the
// account was asked for: what has ended since was its own.
func (s *runState) adopt(a buffer.Account, unheard, known []rollout.GroupSeq) {
	oldest := s.oldestServing()
	own := map[rollout.GroupSeq]bool{}
	for _, seq := range slices.Concat(known, s.known()) {
		own[seq] = true
	}
	strange := func(seq rollout.GroupSeq) bool {
		if own[seq] {
			return false
		}
		s.need(playing{Seq: seq, Version: oldest})
		return true
	}
	for _, seq := range slices.Concat(a.Queued, a.InFlight, unheard) {
		if strange(seq) {
			at, _ := slices.BinarySearchFunc(s.Playing, seq, func(p playing, seq rollout.GroupSeq) int { return cmp.Compare(p.Seq, seq) })
			s.Playing = slices.Insert(s.Playing, at, playing{Seq: seq, Version: oldest})
		}
	}
	for _, seq := range a.Ready {
		if strange(seq) {
			at, _ := slices.BinarySearch(s.Ready, seq)
			s.Ready = slices.Insert(s.Ready, at, seq)
		}
	}
}

// oldestServing is the oldest version that a group launched by another execution may have.
func (s *runState) oldestServing() rollout.PolicyVersion {
	oldest := s.Version
	for _, p := range s.Policies {
		if p.State == rollout.PolicyServing {
			oldest = min(oldest, p.Version)
		}
	}
	return oldest
}

// goOn tells the service that a lost run goes on.
func (r *run) goOn(ctx workflow.Context) error {
	options := shortActivity()
	options.StartToCloseTimeout, options.HeartbeatTimeout = restoreTimeout, loadHeartbeat
	ctx = workflow.WithActivityOptions(ctx, options)
	r.touched = true
	return workflow.ExecuteActivity(ctx, acts.ResumeRun, activities.RestoreInput{
		Spec: r.given, Status: r.status(), Key: r.changeKey(),
	}).Get(ctx, nil)
}
