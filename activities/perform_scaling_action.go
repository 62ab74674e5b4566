package activities

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// PerformScaling does one thing about one engine. What the provider or the fleet refuses is a result: it is for the
// pool to say when that is tried again.
func (a *Scaling) PerformScaling(ctx context.Context, c supply.Command) (supply.Result, error) {
	beat := startHeartbeat(ctx, time.Second)
	defer beat.stop()
	result := supply.Result{Do: c.Do, ID: c.ID}
	err := a.perform(ctx, c)
	if ctx.Err() != nil {
		return result, ctx.Err() // this worker ends; another one does it
	}
	if err != nil {
		a.Log.Warn("scaling", "do", c.Do, "engine", c.ID, "error", err)
		result.Fault = faultText(err)
	}
	return result, nil
}

func (a *Scaling) perform(ctx context.Context, c supply.Command) error {
	switch c.Do {
	case supply.DoStart:
		return a.Provider.Start(ctx, c.ID)
	case supply.DoStop:
		return a.Provider.Stop(ctx, c.ID)
	case supply.DoJoin:
		return a.Fleet.AddListed(ctx, enginestate.Engine{ID: c.ID, URL: c.URL, MaxInFlight: c.MaxInFlight},
			fleet.SourceScaling)
	case supply.DoDrain:
		err := a.Fleet.Drain(ctx, c.ID, c.Recall)
		if rollout.Refused(err, rollout.NoSuchEngine) {
			return nil
		}
		return err
	case supply.DoLeave:
		return a.Fleet.Dismiss(ctx, c.ID)
	}
	return fmt.Errorf("an action of newer code: %s", c.Do)
}
