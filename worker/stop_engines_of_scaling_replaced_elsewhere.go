package worker

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// dismisser takes engines out of the fleet, at once.
type dismisser interface {
	Dismiss(ctx context.Context, id rollout.EngineID) error
}

// stopLeftovers ends the engines that this worker's provider lists while the fleet is scaled by another configuration,
// which took the place of this one when its workers did not answer: nobody else can end them, and nobody will. It
// returns how many were stopped. It is no activity: no other worker could do it.
func stopLeftovers(ctx context.Context, from provider.Provider, fleet dismisser) (int, error) {
	if from == nil {
		return 0, nil
	}
	listed, err := from.List(ctx)
	if err != nil {
		return 0, fmt.Errorf("list engines that were left: %w", err)
	}
	for i, instance := range listed {
		err := fleet.Dismiss(ctx, instance.ID)
		if err == nil {
			err = from.Stop(ctx, instance.ID)
		}
		if err != nil {
			return i, fmt.Errorf("stop engine %s, which was left: %w", instance.ID, err)
		}
	}
	return len(listed), nil
}
