package activities

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// ScalingNews is news of scaling. Each fact has a key, so that a repeated report is recognised.
type ScalingNews struct {
	Decided  []scaling.Decision `json:"decided,omitempty"`
	Measured []scaling.Measured `json:"measured,omitempty"`
	Cost     float64            `json:"cost,omitempty"` // of the fleet so far
	// Troubled says that the provider's trouble began, or ended where Trouble is empty, at a time.
	Troubled bool      `json:"troubled,omitempty"`
	Trouble  string    `json:"trouble,omitempty"`
	Provider string    `json:"provider,omitempty"`
	At       time.Time `json:"at,omitzero"`
	// Ended says that no worker's configuration scales the fleet any more.
	Ended bool `json:"ended,omitempty"`
}

// TellScaling tells the facts of scaling.
func (a *Activities) TellScaling(ctx context.Context, news ScalingNews) error {
	var facts []telemetry.Event
	for _, d := range news.Decided {
		facts = append(facts, supply.DecisionEvent(d))
	}
	for _, m := range news.Measured {
		facts = append(facts, supply.MeasuredEvent(m, news.Cost))
	}
	if news.Troubled {
		facts = append(facts, supply.TroubleEvent(news.At, news.Provider, news.Trouble))
	}
	for _, fact := range facts {
		if err := a.Tell.Tell(ctx, fact); err != nil {
			return typed(err)
		}
	}
	if !news.Ended {
		return nil
	}
	return typed(a.Fleet.EndScaling(ctx, news.At))
}
