package runkeeper

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/workflows"
)

// lookForLost marks runs whose workflow is gone.
func (k *Keeper) lookForLost(ctx context.Context) error {
	active, err := k.Buffer.RecentlyActive(ctx)
	if err != nil {
		return err
	}
	going := map[rollout.RunName]bool{}
	for _, run := range active {
		id := run.Spec.Name
		drive, err := k.Control.Drive(ctx, id)
		if err != nil {
			return err
		}
		if drive.Running {
			going[id] = true
			continue
		}
		if err := k.suspect(ctx, run, drive); err != nil {
			return err
		}
	}
	for id := range k.suspects {
		if going[id] || !listed(active, id) {
			delete(k.suspects, id)
		}
	}
	return nil
}

func listed(runs []runstatus.RunStatus, id rollout.RunName) bool {
	for _, run := range runs {
		if run.Spec.Name == id {
			return true
		}
	}
	return false
}

// suspect notes that a run has no running workflow, and ends it when that has been so for long enough.
func (k *Keeper) suspect(ctx context.Context, run runstatus.RunStatus, drive workflows.Drive) error {
	id, now := run.Spec.Name, time.Now()
	since, suspected := k.suspects[id]
	if !suspected {
		k.suspects[id], since = now, now
	}
	patience, what := k.Pace.Missing, "Temporal does not know it"
	if drive.Known {
		patience, what = k.Pace.Ended, "it was "+drive.How
	}
	if now.Sub(since) < patience {
		return nil
	}
	if drive.Status.State.Over() {
		return k.sayEnd(ctx, drive.Status, now.Sub(since))
	}
	reason := fmt.Sprintf("its workflow is gone: %s; resume it, or stop or delete it", what)
	if _, err := k.Control.End(ctx, id, runstatus.RunLost, reason); err != nil {
		return err
	}
	delete(k.suspects, id) // if it is resumed, it has its time again
	k.Log.Error("a run is lost", "run", id, "reason", reason)
	return nil
}

// answersWithin is how many times its patience a Keeper waits for an ended run's workflow to report the account's mark.
// A workflow with an unreadable history never does.
const answersWithin = 4

// sayEnd records the end of a run that ended normally. The run could not record it, or Redis came back older and has
// forgotten it, and perhaps the last steps, too. Then only the Keeper is left to repair the account.
func (k *Keeper) sayEnd(ctx context.Context, status runstatus.RunStatus, suspected time.Duration) error {
	id := status.Spec.Name
	mark, err := k.Control.Mark(ctx, id)
	switch {
	case err == nil:
		return k.endAt(ctx, status, mark)
	case suspected < answersWithin*k.Pace.Ended:
		return fmt.Errorf("ask run %s, which ended, how far its account had come: %w", id, err)
	}
	k.Log.Warn("a run has ended, and its workflow does not say how far its account had come; steps that Redis has "+
		"forgotten since stay forgotten", "run", id, "error", err)
	return k.Buffer.SaveStatus(ctx, status, buffer.InItsPlace)
}

// endAt ends a run whose account had come as far as a mark says. It may be called again after it was interrupted.
func (k *Keeper) endAt(ctx context.Context, status runstatus.RunStatus, mark runstatus.Mark) error {
	id, now := status.Spec.Name, time.Now()
	account, err := k.Buffer.Account(ctx, id)
	if err != nil {
		return err
	}
	repaired := account.Mark.Era > mark.Era // by an earlier call
	if !repaired && !account.Mark.Behind(mark) && account.NextStep >= status.NextStep {
		return k.Buffer.SaveStatus(ctx, status, buffer.InItsPlace)
	}
	mark.Completed = max(mark.Completed, status.NextStep)
	mark.Granted = max(mark.Granted, mark.Completed)
	mark.Version = max(mark.Version, status.PolicyVersion)
	back, err := k.Buffer.Repair(ctx, id, buffer.Repair{
		Era: max(mark.Era+1, account.Mark.Era), Mark: mark, NextGroup: rollout.GroupSeq(status.Launched),
		Games: status.Spec.Group.Samples + status.Spec.Group.Oversample,
	})
	if err != nil {
		return fmt.Errorf("repair the account of %s, which has ended: %w", id, err)
	}
	status.Rollbacks, status.Rollback = status.Rollbacks+1, &back
	k.Log.Error("Redis came back older than it was; the account of a run that has ended is repaired", "run", id,
		"rollback", back)
	return k.Buffer.SaveStatus(ctx, status, buffer.InItsPlace, telemetry.Event{
		At: now, Run: id, Key: fmt.Sprintf("%s/repair/%d", id, back.Era),
		Body: telemetry.RunChanged{State: status.State, Change: "repair the buffer", Reason: back.String()},
	})
}
