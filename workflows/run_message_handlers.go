package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/run/runmachine"
)

// listen registers everything that may reach the run from outside. It runs before the first wait, so that
// nothing that arrives with the first task is missed.
func (r *run) listen(ctx workflow.Context) error {
	status := func() (runstatus.RunStatus, error) { return r.machine.Status(), nil }
	if err := workflow.SetQueryHandler(ctx, QueryStatus, status); err != nil {
		return err
	}
	mark := func() (runstatus.Mark, error) {
		mark := r.machine.Mark
		mark.Grants = nil
		return mark, nil
	}
	if err := workflow.SetQueryHandler(ctx, QueryMark, mark); err != nil {
		return err
	}
	err := workflow.SetUpdateHandlerWithOptions(ctx, UpdateChange, r.onChange, workflow.UpdateHandlerOptions{
		Validator: func(c spec.Change) error { return refusal(validateChange(r.machine.Run, c)) },
	})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, UpdateProbe, r.onProbe, workflow.UpdateHandlerOptions{
		Validator: func(p runstatus.LoadProbeRequest) error {
			return refusal(r.machine.ValidateLoadProbe(p))
		},
	})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, UpdateStop, r.onStop, workflow.UpdateHandlerOptions{})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, UpdatePublish, r.onPublish, workflow.UpdateHandlerOptions{
		Validator: func(ctx workflow.Context, p Publication) error {
			if workflow.GetInfo(ctx).GetCurrentHistoryLength() > fullHistory {
				return refusal(rollout.Refuse(rollout.Unavailable, "version %d waits until other publications of run %s have "+
					"ended and its history is cut; publish it again", p.Version, r.machine.Spec.Name))
			}
			return refusal(r.machine.ValidatePublication(p.Version, p.Path))
		},
	})
	if err != nil {
		return err
	}
	workflow.Go(ctx, r.hearGroups)
	workflow.Go(ctx, r.hearBuffer)
	return nil
}

// tell passes an event that needs no answer to the machine.
func (r *run) tell(ctx workflow.Context, ev runmachine.Event) {
	_ = r.machine.Handle(workflow.Now(ctx), ev)
}

// hearGroups takes the ends of groups as they come.
func (r *run) hearGroups(ctx workflow.Context) {
	ends := workflow.GetSignalChannel(ctx, SignalGroupEnd)
	for {
		var end activities.GroupEnd
		if more := ends.Receive(ctx, &end); !more {
			return
		}
		r.tell(ctx, runmachine.GroupEnded(end))
	}
}

// drain takes the ends of groups, and marks of the account, that have arrived but not been heard.
func (r *run) drain(ctx workflow.Context) {
	ends := workflow.GetSignalChannel(ctx, SignalGroupEnd)
	var end activities.GroupEnd
	for ends.ReceiveAsync(&end) {
		r.tell(ctx, runmachine.GroupEnded(end))
	}
	hints := workflow.GetSignalChannel(ctx, SignalBufferChanged)
	var mark runstatus.Mark
	for hints.ReceiveAsync(&mark) {
		r.tell(ctx, runmachine.BufferChanged{Mark: mark})
		mark = runstatus.Mark{}
	}
}

// hearBuffer takes hints that a batch was claimed or completed, with how far the account has come since.
func (r *run) hearBuffer(ctx workflow.Context) {
	hints := workflow.GetSignalChannel(ctx, SignalBufferChanged)
	for {
		var mark runstatus.Mark
		if more := hints.Receive(ctx, &mark); !more {
			return
		}
		r.tell(ctx, runmachine.BufferChanged{Mark: mark})
	}
}

func (r *run) onChange(ctx workflow.Context, c spec.Change) (runstatus.RunStatus, error) {
	ev := changed(r.machine.Spec, c)
	ev.ID = workflow.GetCurrentUpdateInfo(ctx).ID
	r.tell(ctx, ev)
	return r.machine.Status(), nil
}

func (r *run) onProbe(ctx workflow.Context, p runstatus.LoadProbeRequest) (runstatus.RunStatus, error) {
	r.tell(ctx, runmachine.LoadProbeAsked{ID: workflow.GetCurrentUpdateInfo(ctx).ID, Request: p})
	return r.machine.Status(), nil
}

func (r *run) onStop(ctx workflow.Context, reason string) (runstatus.RunStatus, error) {
	r.tell(ctx, runmachine.StopAsked{Reason: reason})
	return r.machine.Status(), nil
}

func (r *run) onPublish(ctx workflow.Context, p Publication) (runstatus.Policy, error) {
	id := workflow.GetCurrentUpdateInfo(ctx).ID
	l := &line{run: r}
	ev := runmachine.PublishAsked{ID: id, Version: p.Version, Path: p.Path, Generation: p.Generation}
	if err := r.follow(ctx, l, ev); err != nil {
		return runstatus.Policy{}, err
	}
	return l.answer.Policy, refusal(l.answer.Err)
}
