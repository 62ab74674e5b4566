package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/run/runmachine"
)

// What a run understands. Signals are hints that the buffer has changed; losing or repeating one is harmless.
const (
	SignalBufferChanged = "buffer-changed" // rollout.Mark, or no body
	UpdateChange        = "change"         // spec.Change -> rollout.RunStatus
	UpdateProbe         = "probe"          // rollout.LoadProbeRequest -> rollout.RunStatus
	UpdateStop          = "stop"           // reason -> rollout.RunStatus
	UpdatePublish       = "publish"        // Publication -> rollout.Policy
	QueryStatus         = "status"         // -> rollout.RunStatus
	QueryMark           = "mark"           // -> rollout.Mark, without its batches
)

// RunInput starts a run, or carries it over when its history is cut (continue-as-new).
type RunInput struct {
	Spec       runspec.Spec    `json:"spec"`
	Deployment Deployment      `json:"deployment"`        // whose queues and ids the run's groups have
	State      *runmachine.Run `json:"state,omitempty"`   // nil on the first execution
	Resumed    bool            `json:"resumed,omitempty"` // the first execution after the run was lost
}

// run performs what the machine of one execution decides.
type run struct {
	machine *runmachine.Machine
	ids     Deployment   // whose queues and ids its groups have
	given   runspec.Spec // as the run was started with
	failure error        // with which the workflow ends
	indexed standingKey  // what Temporal lists it by

	cancelling int                                           // lots of groups that are being cancelled meanwhile
	inspecting workflow.Mutex                                // one adapter of the run is read at a time
	loading    map[rollout.PolicyVersion]workflow.CancelFunc // ends the loads of a publication
}

// Run is one training run, from its first group to its end. Package runmachine decides and documents what a run does;
// this workflow is the link to Temporal. Signals, updates and timers become events of the machine; the machine's
// commands become activities, children and timers, whose results are events again.
func Run(ctx workflow.Context, in RunInput) (runstatus.RunStatus, error) {
	r := newRun(ctx, in)
	if err := r.listen(ctx); err != nil {
		return runstatus.RunStatus{}, err
	}
	err := r.follow(ctx, &line{run: r, main: true}, runmachine.Began{New: in.State == nil, Resumed: in.Resumed})
	if err != nil {
		return r.machine.Status(), err
	}
	if r.machine.Finishing() {
		ctx, _ = workflow.NewDisconnectedContext(ctx)
		err = workflow.Await(ctx, func() bool { return r.cancelling == 0 && workflow.AllHandlersFinished(ctx) })
	}
	if r.failure != nil {
		err = r.failure
	}
	r.index(ctx)
	r.show(ctx)
	return r.machine.Status(), err
}

func newRun(ctx workflow.Context, in RunInput) *run {
	r := &run{
		ids: in.Deployment, given: in.Spec,
		inspecting: workflow.NewMutex(ctx), loading: map[rollout.PolicyVersion]workflow.CancelFunc{},
	}
	state := in.State
	if state == nil {
		state = runmachine.NewRun(in.Spec, workflow.Now(ctx))
	}
	r.machine = runmachine.New(state)
	return r
}

// line is commands that follow from one another: the run's own, or those of one publication.
type line struct {
	*run
	main   bool
	loads  *loads                       // latest round of loads of a publication
	answer runmachine.AnswerPublication // of a publication
}

// follow passes an event to the machine and performs the commands that follow, until none is left.
func (r *run) follow(ctx workflow.Context, l *line, ev runmachine.Event) error {
	for commands := r.machine.Handle(workflow.Now(ctx), ev); len(commands) > 0; commands = commands[1:] {
		result, err := l.perform(ctx, commands[0])
		switch {
		case err == nil:
			ev = runmachine.Answered{ID: commands[0].ID, Result: result}
		case temporal.IsCanceledError(err):
			ev = runmachine.Interrupted{ID: commands[0].ID}
		default:
			return err
		}
		commands = append(commands, r.machine.Handle(workflow.Now(ctx), ev)...)
	}
	return nil
}

// A history of maxHistory events is cut: the run continues as new, well under the server's limits (50k events, warnings
// at 10k, and 2,000 updates). At fullHistory, where publications have held up the cut, no more are taken until it is
// done.
const (
	maxHistory  = 4000
	fullHistory = 6000
)

// wait waits for the machine. When the history has become long it is cut then, unless the run is over or an Update is
// being handled. Signals that have arrived are taken first, since the next execution does not see them.
func (r *run) wait(ctx workflow.Context, task runmachine.Wait) (runmachine.Result, error) {
	r.index(ctx)
	r.show(ctx)
	full := func() bool { return workflow.GetInfo(ctx).GetCurrentHistoryLength() > fullHistory && r.idle(ctx) }
	timed, done := workflow.WithCancel(ctx)
	awoke, err := workflow.AwaitWithTimeout(timed, task.For, func() bool { return r.machine.Awake() || full() })
	if workflow.GetVersion(ctx, "cancel-wait-timer", workflow.DefaultVersion, 1) != workflow.DefaultVersion {
		done() // or the timer fires later, and has a task made for nothing
	}
	if err != nil {
		return nil, err
	}
	info := workflow.GetInfo(ctx)
	long := info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > maxHistory
	if !long || !r.idle(ctx) {
		return runmachine.Woken{TimedOut: !awoke}, nil
	}
	r.drain(ctx)
	return nil, workflow.NewContinueAsNewError(ctx, Run, RunInput{Spec: r.given, Deployment: r.ids, State: r.machine.Run})
}

// idle reports whether the run goes on and nothing but its wait would be cut off.
func (r *run) idle(ctx workflow.Context) bool {
	return !r.machine.State.Over() && r.cancelling == 0 && workflow.AllHandlersFinished(ctx)
}
