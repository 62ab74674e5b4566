package workflows

import (
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
)

// listen registers everything that may reach the run from outside. It runs before the first wait, so that
// nothing that arrives with the first task is missed.
func (r *run) listen(ctx workflow.Context) error {
	if err := workflow.SetQueryHandler(ctx, QueryStatus, func() (rollout.RunStatus, error) { return r.status(), nil }); err != nil {
		return err
	}
	err := workflow.SetUpdateHandlerWithOptions(ctx, UpdateChange, r.onChange, workflow.UpdateHandlerOptions{
		Validator: func(c rollout.Change) error { return refusal(validateChange(r.runState, c)) },
	})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, UpdateStop, r.onStop, workflow.UpdateHandlerOptions{})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, UpdatePublish, r.onPublish, workflow.UpdateHandlerOptions{
		Validator: func(p Publication) error { return refusal(validatePublication(r.runState, p)) },
	})
	if err != nil {
		return err
	}
	workflow.Go(ctx, r.hearGroups)
	workflow.Go(ctx, r.hearBuffer)
	return nil
}

// hearGroups takes the ends of groups as they come.
func (r *run) hearGroups(ctx workflow.Context) {
	ends := workflow.GetSignalChannel(ctx, SignalGroupEnd)
	for {
		var end activities.GroupEnd
		if more := ends.Receive(ctx, &end); !more {
			return
		}
		r.groupEnded(end)
	}
}

// drain takes the ends of groups that have arrived but not been heard.
func (r *run) drain(ctx workflow.Context) {
	ends := workflow.GetSignalChannel(ctx, SignalGroupEnd)
	var end activities.GroupEnd
	for ends.ReceiveAsync(&end) {
		r.groupEnded(end)
	}
}

func (r *run) groupEnded(end activities.GroupEnd) {
	r.learn(end)
	r.end(end.Seq, end.Code)
	r.stale = true
	r.touched = r.touched || end.Code != ""
}

// hearBuffer takes hints that a batch was claimed or completed.
func (r *run) hearBuffer(ctx workflow.Context) {
	hints := workflow.GetSignalChannel(ctx, SignalBufferChanged)
	for {
		if more := hints.Receive(ctx, nil); !more {
			return
		}
		r.stale = true
	}
}

func (r *run) onChange(_ workflow.Context, c rollout.Change) (rollout.RunStatus, error) {
	r.apply(c)
	r.note(describe(c))
	if !r.unbounded {
		r.stale, r.shrunk, r.freshened = true, true, 0 // what to let go of shows in a fresh account
	}
	return r.status(), nil
}

func (r *run) onStop(ctx workflow.Context, reason string) (rollout.RunStatus, error) {
	if !r.State.Over() {
		r.State, r.Reason, r.EndedAt = rollout.RunStopped, reason, workflow.Now(ctx)
		r.note("stop")
	}
	return r.status(), nil
}

// note remembers what was done until the next mirror reports it.
func (r *run) note(change string) {
	r.touched = true
	r.change = strings.Trim(r.change+"; "+change, "; ")
}
