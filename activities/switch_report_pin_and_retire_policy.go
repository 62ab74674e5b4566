package activities

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// PinAdapter tells the fleet to keep a fixed policy on every engine.
func (a *Activities) PinAdapter(ctx context.Context, adapter fleet.Adapter) error {
	if err := a.Fleet.Want(ctx, adapter); err != nil {
		return typed(fmt.Errorf("keep %s on the fleet: %w", adapter.Name, err))
	}
	return nil
}

// SwitchInput asks to switch to an adapter, as the trainer process of a generation published it; 0: nobody's.
type SwitchInput struct {
	fleet.Adapter
	Generation rollout.TrainerGeneration `json:"generation,omitempty"`
}

// SwitchPolicy makes a loaded version the one that staleness is measured against, and tells the fleet to
// keep it on every engine, those that join later included. Nothing is kept of a trainer that was replaced meanwhile.
func (a *Activities) SwitchPolicy(ctx context.Context, in SwitchInput) error {
	if err := a.Buffer.SetVersion(ctx, in.Run, in.Version, in.Generation); err != nil {
		return typed(fmt.Errorf("set version of %s: %w", in.Run, err))
	}
	return a.PinAdapter(ctx, in.Adapter)
}

// ReportPolicy reports how a publication ended.
func (a *Activities) ReportPolicy(ctx context.Context, in PolicyReport) error {
	return a.tell(ctx, in.Run, in.Policy.Adapter+"/"+string(in.Policy.State), telemetry.PolicyPublished{Policy: in.Policy})
}

// PolicyReport is one run's publication.
type PolicyReport struct {
	Run    rollout.RunName  `json:"run"`
	Policy runstatus.Policy `json:"policy"`
}

// RetireAdapter lets the fleet unload an adapter that no game uses.
func (a *Activities) RetireAdapter(ctx context.Context, name string) error {
	if err := a.Fleet.Unwant(ctx, name); err != nil {
		return typed(fmt.Errorf("retire %s: %w", name, err))
	}
	return nil
}
