// Package runcontrol starts, changes, resumes, stops, deletes and publishes to runs, through their workflows and the
// buffer's account. Start reading at Control.
package runcontrol

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/run/alarm/noworker"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/workflows"
)

// Control is the workflows as the API sees them, with what only the buffer knows: a run is known there before Temporal
// has it, and stays known when its workflow has ended, or is gone.
type Control struct {
	*workflows.Client
	buffer  accounts
	fleet   adapters
	workers workers
}

// New controls runs through their workflows.
func New(w *workflows.Client, buffer accounts, fleet adapters, workers workers) Control {
	return Control{w, buffer, fleet, workers}
}

// adapters is what Control needs of the fleet's registry.
type adapters interface {
	Wanted(ctx context.Context) ([]fleet.Adapter, error)
	Unwant(ctx context.Context, name string) error
}

// workers is what Control needs of the worker processes.
type workers interface {
	List(ctx context.Context) ([]enginestate.Worker, error)
}

// accounts is what Control needs of the buffer.
type accounts interface {
	Open(ctx context.Context, spec runspec.Spec) error
	Reopen(ctx context.Context, spec runspec.Spec) error
	Forget(ctx context.Context, run rollout.RunName) (forgotten bool, err error)
	Given(ctx context.Context, run rollout.RunName) (runspec.Spec, error)
	Status(ctx context.Context, run rollout.RunName) (runstatus.RunStatus, error)
	SaveStatus(ctx context.Context, status runstatus.RunStatus, mirror int64, facts ...telemetry.Event) error
	Account(ctx context.Context, run rollout.RunName) (buffer.Account, error)
	Unheard(ctx context.Context, run rollout.RunName, before rollout.GroupSeq) ([]rollout.GroupSeq, error)
	Revive(ctx context.Context, run rollout.RunName) error
	Delete(ctx context.Context, run rollout.RunName) error
}

// Start starts a run that can be read at once. One that is over answers how it ended; one whose workflow is gone
// goes on where it was.
func (c Control) Start(ctx context.Context, spec runspec.Spec) (runstatus.RunStatus, bool, error) {
	if err := c.EnsureFleet(ctx); err != nil { // before anything is written: without Temporal nothing is begun
		return runstatus.RunStatus{}, false, err
	}
	var err error
	if spec.Name, err = c.recall(ctx, spec.Name); err != nil {
		return runstatus.RunStatus{}, false, err
	}
	if err := c.open(ctx, spec); err != nil {
		return runstatus.RunStatus{}, false, err
	}
	status, err := c.buffer.Status(ctx, spec.Name)
	switch {
	case err != nil:
		return status, false, err
	case status.State == runstatus.RunStarting:
		return c.Client.Start(ctx, spec)
	case status.State.Over() && status.State != runstatus.RunLost:
		return status, false, nil
	}
	drive, err := c.Drive(ctx, spec.Name)
	switch {
	case err != nil || drive.Running:
		return status, false, err
	case drive.Status.State.Over(): // Redis has come back older: the keeper of runs repairs the account
		return drive.Status, false, nil
	}
	status, err = c.resume(ctx, spec.Name)
	return status, false, err
}

// recall is the run of a name. A Redis that was emptied takes every name for unused until the active runs have come
// back. Without this check a second run would begin beside the first, and no name would reach the first.
func (c Control) recall(ctx context.Context, id rollout.RunName) (rollout.RunName, error) {
	if _, err := c.buffer.Status(ctx, id); !rollout.Refused(err, rollout.NoSuchRun) {
		return id, err
	}
	return c.LaterLife(ctx, id)
}

// open makes a run known. A name whose first start got no further than this may be started with another spec.
func (c Control) open(ctx context.Context, spec runspec.Spec) error {
	err := c.openOrReopen(ctx, spec)
	if !rollout.Refused(err, rollout.Conflict) {
		return err
	}
	drive, unknown := c.Drive(ctx, spec.Name)
	if unknown != nil || drive.Known {
		return err
	}
	if forgotten, failed := c.buffer.Forget(ctx, spec.Name); failed != nil || !forgotten {
		return err
	}
	return c.buffer.Open(ctx, spec)
}

// openOrReopen makes a run known. If it is active in Temporal but unknown to Redis, Redis has forgotten it: nothing of
// it is given out before its workflow has repaired the account.
func (c Control) openOrReopen(ctx context.Context, spec runspec.Spec) error {
	if _, err := c.buffer.Status(ctx, spec.Name); rollout.Refused(err, rollout.NoSuchRun) {
		drive, err := c.Drive(ctx, spec.Name)
		switch {
		case err != nil:
			return err
		case drive.Running:
			return c.buffer.Reopen(ctx, spec)
		}
	}
	return c.buffer.Open(ctx, spec)
}

// resume lets a run go on whose workflow is gone.
func (c Control) resume(ctx context.Context, run rollout.RunName) (runstatus.RunStatus, error) {
	lost := workflows.Lost{}
	var err error
	if lost.Spec, err = c.buffer.Given(ctx, run); err != nil {
		return runstatus.RunStatus{}, err
	}
	if lost.Status, err = c.buffer.Status(ctx, run); err != nil {
		return runstatus.RunStatus{}, err
	}
	if err := c.buffer.Revive(ctx, run); err != nil {
		return runstatus.RunStatus{}, err
	}
	if lost.Account, err = c.buffer.Account(ctx, run); err != nil {
		return runstatus.RunStatus{}, err
	}
	if lost.Unheard, err = c.buffer.Unheard(ctx, run, rollout.GroupSeq(lost.Status.Launched)); err != nil {
		return runstatus.RunStatus{}, err
	}
	status, err := c.Resume(ctx, lost)
	if err != nil {
		return status, err
	}
	return status, c.buffer.SaveStatus(ctx, status, lost.Account.Mirrors)
}

// Change changes an active run. A lost run can be resumed.
func (c Control) Change(ctx context.Context, run rollout.RunName, change spec.Change) (runstatus.RunStatus, error) {
	status, err := answered(ctx, c, func(ctx context.Context) (runstatus.RunStatus, error) {
		return c.Client.Change(ctx, run, change)
	})
	if err = c.ended(ctx, run, err); rollout.Refused(err, rollout.Orphaned) && change.Paused != nil && !*change.Paused {
		return c.resume(ctx, run)
	}
	return status, err
}

// Probe begins a load probe of an active run, or ends the one under way.
func (c Control) Probe(
	ctx context.Context, run rollout.RunName, p runstatus.LoadProbeRequest,
) (runstatus.RunStatus, error) {
	status, err := answered(ctx, c, func(ctx context.Context) (runstatus.RunStatus, error) {
		return c.Client.Probe(ctx, run, p)
	})
	return status, c.ended(ctx, run, err)
}

// Stop ends a run; one that has ended stays as it is. Of one whose workflow is gone only the status is left to be
// changed.
func (c Control) Stop(ctx context.Context, run rollout.RunName, reason string) (runstatus.RunStatus, error) {
	status, err := answered(ctx, c, func(ctx context.Context) (runstatus.RunStatus, error) {
		return c.Client.Stop(ctx, run, reason)
	})
	switch err = c.ended(ctx, run, err); {
	case err == nil:
		c.awaitMirror(ctx, run)
	case rollout.Refused(err, rollout.RunOver):
		c.awaitMirror(ctx, run)
		return c.buffer.Status(ctx, run)
	case rollout.Refused(err, rollout.Orphaned):
		return c.End(ctx, run, runstatus.RunStopped, reason)
	}
	return status, err
}

// mirrorFor bounds the wait for a run that is over to say so where everybody reads it.
const mirrorFor = 3 * time.Second

// awaitMirror waits until the mirror shows that a run is over, so that its stopper can go on with what requires that.
// It only waits for a while: without workers the mirror does not follow.
func (c Control) awaitMirror(ctx context.Context, run rollout.RunName) {
	ctx, cancel := context.WithTimeout(ctx, mirrorFor)
	defer cancel()
	for {
		status, err := c.buffer.Status(ctx, run)
		if err != nil || status.State.Over() || retry.Pause(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
}

// End ends a run whose workflow is gone: it cancels the run's games and no longer keeps its adapters. It records the
// end last, so that a later resume keeps what it has from then on.
func (c Control) End(
	ctx context.Context, run rollout.RunName, state runstatus.RunState, reason string,
) (runstatus.RunStatus, error) {
	status, err := c.buffer.Status(ctx, run)
	if err != nil {
		return status, err
	}
	status.State, status.Reason = state, reason
	now := time.Now()
	if status.EndedAt.IsZero() {
		status.EndedAt = now.UTC()
	}
	if err := c.UnwantAdapters(ctx, run); err != nil {
		return status, err
	}
	account, err := c.buffer.Account(ctx, run)
	if err != nil {
		return status, err
	}
	if err := c.CancelGroups(ctx, run, append(account.Queued, account.InFlight...)); err != nil {
		return status, err
	}
	return status, c.buffer.SaveStatus(ctx, status, buffer.InItsPlace, telemetry.Event{
		At: now, Run: run, Key: fmt.Sprintf("%s/%s/%d", run, state, status.EndedAt.UnixMilli()),
		Body: telemetry.RunChanged{State: state, Change: changeOf(state), Reason: reason},
	})
}

// changeOf names the change of a run that is ended in the place of its workflow.
func changeOf(state runstatus.RunState) string {
	if state == runstatus.RunStopped {
		return "stop"
	}
	return string(state)
}

// AdapterOwners is the runs whose adapters the fleet keeps.
func (c Control) AdapterOwners(ctx context.Context) ([]rollout.RunName, error) {
	wanted, err := c.fleet.Wanted(ctx)
	var owners []rollout.RunName
	for _, adapter := range wanted {
		owners = append(owners, adapter.Run)
	}
	slices.Sort(owners)
	return slices.Compact(owners), err
}

// UnwantAdapters lets the fleet unload a run's adapters.
func (c Control) UnwantAdapters(ctx context.Context, run rollout.RunName) error {
	wanted, err := c.fleet.Wanted(ctx)
	if err != nil {
		return err
	}
	for _, adapter := range wanted {
		if adapter.Run != run {
			continue
		}
		if err := c.fleet.Unwant(ctx, adapter.Name); err != nil {
			return err
		}
	}
	return nil
}

// Delete makes a run unknown; what it held is removed by a worker.
func (c Control) Delete(ctx context.Context, run rollout.RunName) error {
	return c.buffer.Delete(ctx, run)
}

// Publish loads a version on the engines and switches to it.
func (c Control) Publish(
	ctx context.Context, run rollout.RunName, v rollout.PolicyVersion, path string, by rollout.TrainerGeneration,
) (runstatus.Policy, error) {
	policy, err := answered(ctx, c, func(ctx context.Context) (runstatus.Policy, error) {
		return c.Client.Publish(ctx, run, v, path, by)
	})
	return policy, c.ended(ctx, run, err)
}

// ended tells a run that has ended, or whose workflow is gone, from one that never was.
func (c Control) ended(ctx context.Context, run rollout.RunName, err error) error {
	if !rollout.Refused(err, rollout.NoSuchRun) {
		return err
	}
	status, unknown := c.buffer.Status(ctx, run)
	if unknown != nil {
		return err
	}
	if !status.State.Over() {
		drive, err := c.Drive(ctx, run)
		if err != nil {
			return err
		}
		status.State = cmp.Or(drive.Status.State, status.State) // a Redis that came back older does not know its end
	}
	if status.State.Over() && status.State != runstatus.RunLost {
		return rollout.Refuse(rollout.RunOver,
			"run %s is %s; only an active run can be changed", run.Plain(), status.State)
	}
	return rollout.Refuse(rollout.Orphaned,
		"the workflow of run %s is gone: it was terminated, or Temporal has lost it; "+
			"resume it with `millrace run resume %s`, or stop or delete it", run.Plain(), run.Plain())
}

// SetScaling changes by what the fleet is scaled.
func (c Control) SetScaling(ctx context.Context, change scaling.SettingsChange) (workflows.ScalingSettings, error) {
	return answered(ctx, c, func(ctx context.Context) (workflows.ScalingSettings, error) {
		return c.Client.SetScaling(ctx, change)
	})
}

// Rhythm: after how long without an answer a caller is told what is missing, if it is known, and how long Temporal may
// take to show that it lives. Together they bound an operator's wait when no process can answer.
const (
	whyAfter    = 2 * time.Second
	healthyWait = 2 * time.Second
)

// answered makes a call that a run's workflow must answer. If Temporal or a worker is missing, it says so and does not
// wait for the call's own deadline. A change that was cut off may still be made later; repeating it does no harm.
func answered[T any](ctx context.Context, c Control, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(whyAfter, func() {
		if why := c.unanswered(ctx); why != nil {
			cancel(why)
		}
	})
	defer late.Stop()
	result, err := do(ctx)
	var why *rollout.Refusal
	if err != nil && errors.As(context.Cause(ctx), &why) {
		return result, why
	}
	return result, err
}

// unanswered is why the run's workflow cannot answer, or nil.
func (c Control) unanswered(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthyWait)
	defer cancel()
	if err := c.Reachable(ctx); err != nil {
		return rollout.Refuse(rollout.Unavailable,
			"Temporal does not answer, and without it no run can be changed; claims and records go on meanwhile, try this again")
	}
	workers, err := c.workers.List(ctx)
	if err != nil {
		return nil // Redis has its own errors
	}
	if a, alone := noworker.Alarm(time.Now(), workers); alone {
		return rollout.Refuse(rollout.Unavailable, "%s; %s, then try this again", a.Text, a.Advice)
	}
	return nil
}
