package runkeeper

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/buffer"
)

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
