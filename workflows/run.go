package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/rollout"
)

// What a run understands. Signals are hints that the buffer has changed; losing or repeating one is harmless.
const (
	SignalBufferChanged = "buffer-changed" // no body
	UpdateChange        = "change"         // rollout.Change -> rollout.RunStatus
	UpdateStop          = "stop"           // reason -> rollout.RunStatus
	UpdatePublish       = "publish"        // Publication -> rollout.Policy
	QueryStatus         = "status"         // -> rollout.RunStatus
)

// auditEvery bounds how long a lost notification can go unnoticed.
const auditEvery = 15 * time.Second

// run is one execution of Run: its state, and what this execution still has to react to.
type run struct {
	*runState
	queues Queues
	ids    Deployment // whose ids its groups have
	// stale tells that the buffer may have changed since the account was last taken.
	stale bool
	// touched tells that readers should be given the new status.
	touched bool
	change  string // what an operator did since, for the event

	queued    []rollout.GroupSeq    // by the latest account, oldest first
	shrunk    bool                  // a change may have left more outstanding than there is room for
	freshened rollout.PolicyVersion // the newest one when groups that are too stale for it were let go of
	learning  bool                  // the signal has collapsed or come back, and readers do not know yet
	throttled rollout.Throttle      // as readers were told last

	given rollout.Spec // as the run was started with
	quiet bool         // nothing happened since the last account; what differs was not told

	adopts     bool // groups that another execution launched; not in a history without the patch
	pace       pace
	cancelling int                       // lots of groups that are being cancelled meanwhile
	watched    map[rollout.GroupSeq]bool // groups in play whose end this execution hears; nil in a history without the patch
	suspicious bool                      // one of them ended and the run was not told

	publishing map[rollout.PolicyVersion]*publishing // publications under way
	inspecting workflow.Mutex                        // one adapter of the run is read at a time
}

// Run is one training run: it keeps the buffer full until all steps are completed. It launches groups while fewer
// than depth x groups_per_step are outstanding, each stamped with the newest policy version; takes changes,
// publications and a stop as Updates; and answers its status by Query. Its state is plain data, so that it continues
// as new long before its history grows large.
func Run(ctx workflow.Context, in RunInput) (rollout.RunStatus, error) {
	r := &run{runState: in.State, queues: in.Queues, ids: in.Deployment, stale: true, given: in.Spec}
	if r.ids != "" && workflow.GetVersion(ctx, "deployment-ids", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		r.ids = "" // a worker of an earlier version took the first task
	}
	if r.runState == nil {
		r.runState = newRunState(in.Spec, workflow.Now(ctx))
		r.touched, r.change = true, ""
	}
	if r.Looked.IsZero() {
		r.Looked = workflow.Now(ctx)
	}
	r.unbounded = workflow.GetVersion(ctx, "admission", workflow.DefaultVersion, 1) == workflow.DefaultVersion
	if workflow.GetVersion(ctx, "watch-groups", workflow.DefaultVersion, 1) != workflow.DefaultVersion {
		r.watched = map[rollout.GroupSeq]bool{}
	}
	r.paced = workflow.GetVersion(ctx, "paced", workflow.DefaultVersion, 1) != workflow.DefaultVersion
	r.rests = workflow.GetVersion(ctx, "respite", workflow.DefaultVersion, 1) != workflow.DefaultVersion
	r.adopts = workflow.GetVersion(ctx, "adopt", workflow.DefaultVersion, 1) != workflow.DefaultVersion
	r.careful = workflow.GetVersion(ctx, "publication", workflow.DefaultVersion, 1) != workflow.DefaultVersion
	r.publishing, r.inspecting = map[rollout.PolicyVersion]*publishing{}, workflow.NewMutex(ctx)
	if err := r.listen(ctx); err != nil {
		return rollout.RunStatus{}, err
	}
	if in.State == nil {
		short := workflow.WithActivityOptions(ctx, shortActivity())
		if err := workflow.ExecuteActivity(short, acts.OpenRun, in.Spec).Get(ctx, nil); err != nil {
			return rollout.RunStatus{}, err
		}
		if err := r.pin(ctx); err != nil {
			r.State, r.Reason, r.EndedAt = rollout.RunStopped, "a fixed policy cannot be used: "+cause(err), workflow.Now(ctx)
			_, _ = r.finish(ctx) // what was pinned is let go of, and readers see the end
			return r.status(), err
		}
	}
	if in.Resumed {
		if err := r.goOn(ctx); err != nil {
			return rollout.RunStatus{}, err
		}
	}
	for !r.State.Over() {
		if err := r.cancelled(ctx, r.turn(ctx)); err != nil {
			return r.status(), err
		}
		if r.cut(ctx) {
			return r.status(), workflow.NewContinueAsNewError(ctx, Run, RunInput{
				Spec: in.Spec, Queues: in.Queues, Deployment: r.ids, State: r.runState,
			})
		}
	}
	return r.finish(ctx)
}

// turn brings the account up to date, launches what is missing and waits for something to happen.
func (r *run) turn(ctx workflow.Context) error {
	if r.stale {
		r.audit(ctx)
	}
	if r.Completed >= r.Spec.Steps {
		r.State, r.EndedAt = rollout.RunCompleted, workflow.Now(ctx)
		return nil
	}
	r.shrink(ctx)
	r.freshen(ctx)
	if r.watched != nil {
		r.look(ctx) // before the missing are replaced
	}
	if err := r.fill(ctx); err != nil {
		return err
	}
	if r.watched == nil {
		r.look(ctx)
	}
	r.retire(ctx)
	r.mirror(ctx)
	_, wait := r.due(ctx)
	awoke, err := workflow.AwaitWithTimeout(ctx, wait, func() bool {
		return r.stale || r.touched || r.suspicious || r.State.Over() || !r.paced && r.launches() > 0
	})
	if err != nil {
		return err
	}
	r.quiet = !awoke && wait == auditEvery
	r.stale = r.stale || r.quiet
	return nil
}

// audit takes the buffer's account, and gives the buffer the run's own when it has none any more. When the buffer
// cannot be asked the run goes on with its own.
func (r *run) audit(ctx workflow.Context) {
	asking := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: 10 * time.Second,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2},
	})
	r.stale = false
	asked, known := slices.Clone(r.Ready), r.known()
	var account buffer.Account
	err := workflow.ExecuteLocalActivity(asking, acts.Account, r.Spec.Name).Get(ctx, &account)
	if r.lost(account, err) {
		account, err = r.restore(ctx)
		r.touched = true
	}
	if err != nil {
		workflow.GetLogger(ctx).Warn("the buffer does not answer; going on with the run's own account", "error", err)
		return
	}
	if r.quiet {
		r.repaired(r.difference(account))
	}
	before := r.Completed
	if r.adopts {
		r.adopt(account, nil, known)
	}
	r.reconcile(account, asked)
	r.queued = account.Queued
	r.touched = r.touched || r.Completed != before || r.quiet && r.throttle() != r.throttled
}

// fill starts the groups that are missing, as many as are due, and waits until the server has them.
func (r *run) fill(ctx workflow.Context) error {
	due, _ := r.due(ctx)
	began := workflow.Now(ctx)
	r.pace.launched(began, due, r.games())
	children := make([]workflow.ChildWorkflowFuture, due)
	for i := range children {
		group := r.launch()
		children[i] = r.start(ctx, group)
		r.watch(ctx, group.Seq, children[i])
	}
	for _, child := range children {
		err := child.GetChildWorkflowExecution().Get(ctx, nil)
		if err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) { // an execution that was reset may have started it
			return fmt.Errorf("start group: %w", err)
		}
	}
	r.pace.took(workflow.Now(ctx).Sub(began), due)
	return nil
}

// start starts a group as a child that survives this execution.
func (r *run) start(ctx workflow.Context, p playing) workflow.ChildWorkflowFuture {
	ref := rollout.GroupRef{Run: r.Spec.Name, Seq: p.Seq}
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            r.ids.GroupID(ref),
		TaskQueue:             r.queues.Control,
		ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	})
	return workflow.ExecuteChildWorkflow(ctx, Group, GroupInput{
		Plan: r.plan(ref, p, workflow.Now(ctx)), Run: workflow.GetInfo(ctx).WorkflowExecution.ID, Games: r.queues.Games,
	})
}

func (r *run) plan(ref rollout.GroupRef, p playing, now time.Time) activities.GroupPlan {
	model := p.Version.Adapter(r.Spec.Name)
	if model == "" {
		model = r.Spec.Model
	}
	return activities.GroupPlan{
		Ref:         ref,
		Seed:        groupSeed(r.Spec.Seed, ref.Seq),
		GroupSpec:   r.Spec.Group,
		Environment: r.Spec.Environment,
		Model:       model,
		Version:     p.Version,
		Refresh:     r.Spec.PolicyRefresh,
		Fixed:       r.fixed(),
		Sampling:    r.Spec.Sampling,
		Timeouts:    r.Spec.Timeouts,
		LaunchedAt:  now,
	}
}

// fixed is the models of the run's fixed policies, by name.
func (r *run) fixed() map[string]string {
	models := map[string]string{}
	for _, p := range r.Spec.Policies {
		models[p.Name] = p.Model(r.Spec.Name, r.Spec.Model)
	}
	return models
}

// groupSeed gives each group its own stream (splitmix64 of the run's seed and the group's number).
func groupSeed(seed int64, seq rollout.GroupSeq) int64 {
	z := uint64(seed) + (uint64(seq)+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return int64((z ^ z>>31) >> 1)
}

// mirror gives readers the status, when it has changed.
func (r *run) mirror(ctx workflow.Context) {
	if !r.touched {
		return
	}
	change, learning := r.change, r.learning
	r.touched, r.change, r.learning, r.throttled = false, "", false, r.throttle()
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	ctx = workflow.WithActivityOptions(ctx, shortActivity())
	err := workflow.ExecuteActivity(ctx, acts.Mirror, activities.MirrorInput{
		Status: r.status(), AsOf: workflow.Now(ctx), Change: change, Key: r.changeKey(), Signal: learning,
	}).Get(ctx, nil)
	if err != nil {
		workflow.GetLogger(ctx).Error("mirror the run's status", "error", err)
	}
}

// changeKey is the key of the event of the latest change.
func (r *run) changeKey() string { return fmt.Sprintf("%s/change/%d", r.Spec.Name, r.Changes) }

// maxHistory is where a run continues as new, well under the server's limits (50k events, warnings at 10k).
const maxHistory = 4000

// cut reports whether to continue as new: the history is long and no Update is being handled. Signals that
// have arrived are taken first, since the next execution does not see them.
func (r *run) cut(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	long := info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > maxHistory
	if !long || r.State.Over() || r.cancelling > 0 || !workflow.AllHandlersFinished(ctx) {
		return false
	}
	r.drain(ctx)
	return true
}

// cancelled turns the workflow's cancellation (from Temporal's own tools), wherever it is met, into a stop.
func (r *run) cancelled(ctx workflow.Context, err error) error {
	if !temporal.IsCanceledError(err) {
		return err
	}
	r.State, r.Reason, r.EndedAt = rollout.RunStopped, "cancelled through Temporal", workflow.Now(ctx)
	return nil
}

// finish lets go of what is still played, publishes the last status and ends. Readers see the end first: thousands
// of games may have to be cancelled.
func (r *run) finish(ctx workflow.Context) (rollout.RunStatus, error) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if r.paced {
		r.touched, r.change = true, string(r.State)
		r.mirror(ctx)
	}
	playing := r.Playing // ends that are heard meanwhile move it along
	if workflow.GetVersion(ctx, "call-all", workflow.DefaultVersion, 1) != workflow.DefaultVersion {
		playing = slices.Clone(playing)
	}
	if r.paced {
		r.cancelGroups(ctx, seqsOf(playing))
	} else {
		for _, p := range playing {
			r.call(ctx, p.Seq)
		}
	}
	for i := range r.Policies { // at most one is being published
		if under := r.publishing[r.Policies[i].Version]; under != nil {
			under.stop()
		}
		if r.Policies[i].State == rollout.PolicyServing {
			r.retireOne(ctx, &r.Policies[i])
		}
	}
	r.unpin(ctx)
	r.touched = true
	if !r.paced {
		r.change = string(r.State)
	}
	r.mirror(ctx)
	err := workflow.Await(ctx, func() bool { return r.cancelling == 0 && workflow.AllHandlersFinished(ctx) })
	return r.status(), err
}
