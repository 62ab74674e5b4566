package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
)

// ends looks after the ends of runs, beside the keeper of the fleet, so that one worker of a deployment does at a
// time: it finds runs whose workflow is gone, deletes what has been over for longer than it is to be kept, and
// removes what deleted runs held.
type ends struct {
	control
	backend   *Backend
	emit      telemetry.Emitter
	retention time.Duration // after the end of a run; 0: for good
	pace      endsPace
	log       *slog.Logger

	suspects map[rollout.RunName]time.Time // since when a run that is not over was seen without a workflow
}

// endsPace is how often runs are looked at, and how patiently: a run whose workflow has ended without it, or is not
// there, is lost when that is so for a while. Between making a run known and starting its workflow a server may
// take long.
type endsPace struct {
	every   time.Duration
	ended   time.Duration // the patience when its workflow was ended
	missing time.Duration // the patience when Temporal does not know it
}

// usualEnds is the pace of a worker. docs/runs.md says how long the loss of a run may go unnoticed with it.
var usualEnds = endsPace{every: 5 * time.Second, ended: 15 * time.Second, missing: 60 * time.Second}

// purgeFor bounds one attempt to remove what a deleted run held.
const purgeFor = 10 * time.Minute

// Tend works until ctx is done.
func (e *ends) Tend(ctx context.Context) {
	e.suspects = map[rollout.RunName]time.Time{}
	for pause(ctx, e.pace.every) == nil {
		for _, duty := range []struct {
			what string
			do   func(context.Context) error
		}{
			{"remove what deleted runs held", e.purge}, {"look for lost runs", e.lookForLost}, {"delete runs that are kept no longer", e.expire},
		} {
			if err := duty.do(ctx); err != nil && ctx.Err() == nil {
				e.log.Warn(duty.what, "error", err)
			}
		}
	}
}

// lookForLost marks runs whose workflow is gone.
func (e *ends) lookForLost(ctx context.Context) error {
	active, err := e.backend.Buffer.Active(ctx)
	if err != nil {
		return err
	}
	going := map[rollout.RunName]bool{}
	for _, run := range active {
		id := run.Spec.Name
		drive, err := e.Drive(ctx, id)
		if err != nil {
			return err
		}
		if drive.Running {
			going[id] = true
			continue
		}
		if err := e.suspect(ctx, run, drive.Known, drive.How, drive.Status); err != nil {
			return err
		}
	}
	for id := range e.suspects {
		if going[id] || !listed(active, id) {
			delete(e.suspects, id)
		}
	}
	return nil
}

func listed(runs []rollout.RunStatus, id rollout.RunName) bool {
	for _, run := range runs {
		if run.Spec.Name == id {
			return true
		}
	}
	return false
}

// suspect notes that a run has no workflow that goes on, and ends it when that has been so for long enough.
func (e *ends) suspect(ctx context.Context, run rollout.RunStatus, known bool, how string, last rollout.RunStatus) error {
	id, now := run.Spec.Name, time.Now()
	since, suspected := e.suspects[id]
	if !suspected {
		e.suspects[id], since = now, now
	}
	patience, what := e.pace.missing, "Temporal does not know it"
	if known {
		patience, what = e.pace.ended, "it was "+how
	}
	if now.Sub(since) < patience {
		return nil
	}
	if last.State.Over() { // it ended as it should, and could not say so
		return e.backend.Buffer.SaveStatus(ctx, last, now)
	}
	reason := fmt.Sprintf("its workflow is gone: %s; resume it, or stop or delete it", what)
	status, err := e.end(ctx, id, rollout.RunLost, reason)
	if err != nil {
		return err
	}
	delete(e.suspects, id) // if it is resumed, it has its time again
	e.log.Error("a run is lost", "run", id, "reason", reason)
	e.emit.Emit(telemetry.Event{
		At: now, Run: id, Key: fmt.Sprintf("%s/lost/%d", id, status.EndedAt.UnixMilli()),
		Body: telemetry.RunChanged{State: rollout.RunLost, Change: "lost", Reason: reason},
	})
	return nil
}

// expire deletes runs that have been over for longer than they are to be kept.
func (e *ends) expire(ctx context.Context) error {
	if e.retention <= 0 {
		return nil
	}
	runs, err := e.backend.Buffer.Runs(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, run := range runs {
		if !run.State.Over() || run.EndedAt.IsZero() || time.Since(run.EndedAt) < e.retention {
			continue
		}
		e.log.Info("a run is deleted: it has been over for longer than runs are kept", "run", run.Spec.Name, "ended", run.EndedAt, "retention", e.retention)
		faults = append(faults, e.Delete(ctx, run.Spec.Name))
	}
	return errors.Join(faults...)
}

// purge removes what deleted runs held. What fails is tried again in the next round.
func (e *ends) purge(ctx context.Context) error {
	runs, err := e.backend.Buffer.Deleting(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, run := range runs {
		if err := e.purgeOne(ctx, run); err != nil {
			faults = append(faults, fmt.Errorf("run %s: %w", run, err))
		}
	}
	return errors.Join(faults...)
}

// purgeOne removes what a run held: first its adapters, which may hold up the fleet, and last the record that there
// is something left.
func (e *ends) purgeOne(ctx context.Context, run rollout.RunName) error {
	ctx, cancel := context.WithTimeout(ctx, purgeFor)
	defer cancel()
	if err := e.unwant(ctx, run); err != nil {
		return err
	}
	if err := e.Erase(ctx, run); err != nil {
		return err
	}
	if err := e.unwant(ctx, run); err != nil { // of a publication that was under way
		return err
	}
	if err := e.backend.Events.Delete(ctx, run); err != nil {
		return fmt.Errorf("delete events: %w", err)
	}
	if err := e.backend.Buffer.Purge(ctx, run); err != nil {
		return err
	}
	e.log.Info("what a deleted run held is removed", "run", run)
	return nil
}
