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

// OpenRun prepares the buffer for a run.
func (a *Activities) OpenRun(ctx context.Context, spec runspec.Spec) error {
	if err := a.Buffer.Reopen(ctx, spec); err != nil {
		return typed(fmt.Errorf("open run %s: %w", spec.Name, err))
	}
	return a.tell(ctx, spec.Name, string(spec.Name)+"/start",
		telemetry.RunChanged{State: runstatus.RunRunning, Change: "start"})
}

// AccountInput names a run, and the first step whose batch is asked for with its account.
type AccountInput struct {
	Run   rollout.RunName `json:"run"`
	Since rollout.Step    `json:"since"`
	// Mirrors is the number of what the run told last; 0: nothing yet.
	Mirrors int64 `json:"mirrors,omitempty"`
}

// Account is the buffer's account of the run's groups, against which the workflow corrects its own.
type Account struct {
	buffer.Account
	// FleetHistory is of the Redis that holds the fleet; empty: not known.
	FleetHistory string `json:"fleet_history,omitempty"`
	// Told is what readers were told under a higher number than the run has given, and Unheard the launches of which the
	// buffer has not heard then.
	Told    *runstatus.RunStatus `json:"told,omitempty"`
	Unheard []rollout.GroupSeq   `json:"unheard,omitempty"`
}

// Account reads the account of a run, and makes sure that the run is listed.
func (a *Activities) Account(ctx context.Context, in AccountInput) (Account, error) {
	account, err := a.Buffer.AccountSince(ctx, in.Run, in.Since)
	if err != nil {
		return Account{}, typed(fmt.Errorf("account of %s: %w", in.Run, err))
	}
	if err := a.Buffer.KeepListed(ctx, in.Run); err != nil {
		a.Log.Warn("a run cannot see to it that it is listed", "run", in.Run, "error", err)
	}
	history, err := a.Fleet.History(ctx)
	if err != nil {
		a.Log.Warn("the fleet's Redis does not say which history it has", "run", in.Run, "error", err)
	}
	out := Account{Account: account, FleetHistory: history}
	if account.Mirrors <= in.Mirrors {
		return out, nil
	}
	told, err := a.Buffer.Status(ctx, in.Run)
	if err != nil {
		return Account{}, typed(fmt.Errorf("what %s told last: %w", in.Run, err))
	}
	if out.Unheard, err = a.Buffer.Unheard(ctx, in.Run, rollout.GroupSeq(told.Launched)); err != nil {
		return Account{}, typed(fmt.Errorf("launches of %s: %w", in.Run, err))
	}
	out.Told = &told
	return out, nil
}

// MirrorInput carries a run's status to where readers find it without asking Temporal.
type MirrorInput struct {
	Status runstatus.RunStatus `json:"status"`
	Mirror int64               `json:"mirror"`           // its number
	Change string              `json:"change,omitempty"` // reported as an event when not empty
	Key    string              `json:"key,omitempty"`    // of that event
	// whether there is something to learn has changed, which is an event of its own
	RewardVarianceChanged bool `json:"reward_variance_changed,omitempty"`
}

// Mirror publishes the run's status and limits.
func (a *Activities) Mirror(ctx context.Context, in MirrorInput) error {
	spec := in.Status.Spec
	if err := a.Buffer.SetLimits(ctx, spec.Name, spec.Buffer, spec.Steps, in.Mirror); err != nil {
		return typed(fmt.Errorf("set limits of %s: %w", spec.Name, err))
	}
	var facts []telemetry.Event
	if in.RewardVarianceChanged {
		facts = append(facts, a.event(spec.Name, in.Key+"/reward_variance",
			telemetry.RewardVarianceChanged{RewardVariance: in.Status.RewardVariance}))
	}
	if in.Change != "" {
		facts = append(facts, a.event(spec.Name, in.Key,
			telemetry.RunChanged{State: in.Status.State, Change: in.Change, Reason: in.Status.Reason}))
	}
	save := a.Buffer.SaveStatus
	if in.Status.State.Over() {
		save = a.Buffer.SaveEnd // the keeper of runs says it where Redis has come back older meanwhile
	}
	if err := save(ctx, in.Status, in.Mirror, facts...); err != nil {
		return typed(fmt.Errorf("save status of %s: %w", spec.Name, err))
	}
	return nil
}
