package activities

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/buffer"
)

// ConfirmInput is a comparison that a run has made of its account with the buffer's.
type ConfirmInput struct {
	Run           rollout.RunName `json:"run"`
	Era           int64           `json:"era"`
	ReplicationID string          `json:"replication_id"` // of Redis, under which the account was read
}

// ConfirmAccount lets the buffer go on, and reports whether it does: not when Redis was replaced since.
func (a *Activities) ConfirmAccount(ctx context.Context, in ConfirmInput) (bool, error) {
	confirmed, err := a.Buffer.Confirm(ctx, in.Run, in.Era, in.ReplicationID)
	if err != nil {
		return false, typed(fmt.Errorf("confirm the account of %s: %w", in.Run, err))
	}
	return confirmed, nil
}

// RepairInput is all that a run knows of itself when the buffer's Redis is behind it, or has forgotten it.
type RepairInput struct {
	RestoreInput
	Mirror int64         `json:"mirror"`
	Repair buffer.Repair `json:"repair"`
}

// Repaired is the account after a repair, and what was found.
type Repaired struct {
	Account  Account            `json:"account"`
	Rollback runstatus.Rollback `json:"rollback"`
}

// gamesOf is how many games a group of a run has, at most.
func gamesOf(s runspec.Spec) int { return s.Group.Samples + s.Group.Oversample }

// RepairAccount repairs the account of a Redis that came back older or empty. Nothing that trainers were told is
// undone. It reports what was lost, and asks the engines again for serving versions and fixed policies.
func (a *Activities) RepairAccount(ctx context.Context, in RepairInput) (Repaired, error) {
	heartbeat := startHeartbeat(ctx, loadBeat) // adapters are read for their digests
	defer heartbeat.stop()
	run := in.Spec.Name
	if err := a.Buffer.Reopen(ctx, in.Spec); err != nil {
		return Repaired{}, typed(fmt.Errorf("open run %s again: %w", run, err))
	}
	if err := a.assertAdapters(ctx, in.RestoreInput); err != nil {
		return Repaired{}, typed(err)
	}
	in.Repair.Games = max(gamesOf(in.Spec), gamesOf(in.Status.Spec))
	back, err := a.Buffer.Repair(ctx, run, in.Repair)
	if err != nil {
		return Repaired{}, typed(fmt.Errorf("repair the account of %s: %w", run, err))
	}
	a.Log.Error("Redis came back older than it was; the run's account is repaired", "run", run, "rollback", back)
	fact := a.event(run, in.Key, telemetry.RunChanged{
		State: in.Status.State, Change: "repair the buffer", Reason: back.String(),
	})
	spec := in.Status.Spec
	if err := a.Buffer.SetLimits(ctx, run, spec.Buffer, spec.Steps, in.Mirror); err != nil {
		return Repaired{}, typed(fmt.Errorf("set limits of %s: %w", run, err))
	}
	if err := a.Buffer.SaveStatus(ctx, in.Status, in.Mirror, fact); err != nil {
		return Repaired{}, typed(fmt.Errorf("save status of %s: %w", run, err))
	}
	account, err := a.Account(ctx, AccountInput{Run: run, Since: in.Repair.Mark.Granted})
	return Repaired{Account: account, Rollback: back}, err
}
