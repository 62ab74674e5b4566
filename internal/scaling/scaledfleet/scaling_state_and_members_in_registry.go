// Package scaledfleet is the fleet's registry for scaling: it adds bought engines and the reported state of scaling.
// Start reading at Registry.
package scaledfleet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// Registry is the fleet's registry, and what scaling keeps beside it.
type Registry struct{ *fleet.Registry }

// note is the name of scaling's state among the fleet's notes.
const note = "scaling"

// Bought is the members that scaling has bought, as its supply wants to know them, and all engines.
func (r Registry) Bought(ctx context.Context) (bought []supply.Member, all []enginestate.Engine, err error) {
	w := r.Watch()
	if all, _, err = w.Engines(ctx); err != nil {
		return nil, nil, err
	}
	members, err := w.Members(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range all {
		m := members[e.ID]
		if m.Source != fleet.SourceScaling {
			continue
		}
		bought = append(bought, supply.Member{
			ID: m.ID, URL: m.URL, State: e.State, Reason: e.Reason, Since: e.Since, Drain: m.Drain,
			Recalled: m.Drain && m.Now, Leave: m.Leave,
			Idle: !e.Load.At.IsZero() && e.Load.Running+e.Load.Waiting == 0, IdleAt: e.Load.At,
		})
	}
	return bought, all, nil
}

// SaveScaling replaces the reported state of a fleet that is scaled.
func (r Registry) SaveScaling(ctx context.Context, v supply.View) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("save what scaling does: %w", err)
	}
	return r.SaveNote(ctx, note, text)
}

// Scaling is the reported state of a fleet that is scaled; false: it never was.
func (r Registry) Scaling(ctx context.Context) (v supply.View, scaled bool, err error) {
	text, err := r.Note(ctx, note)
	if err != nil || text == nil {
		return v, false, err
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return v, false, fmt.Errorf("what scaling does: %w", err)
	}
	return v, true, nil
}

// EndScaling records that the fleet is not scaled any more since a time: its engines are left as they are.
func (r Registry) EndScaling(ctx context.Context, at time.Time) error {
	v, err := r.Scaled(ctx)
	if err != nil || v == nil {
		return err
	}
	v.EndedAt = at
	v.Why = "no worker's configuration has a section `scaling` any more; engines are left as they are"
	return r.SaveScaling(ctx, *v)
}

// Scaled is the reported state of a fleet that is scaled now; nil: it is not, or not any more.
func (r Registry) Scaled(ctx context.Context) (*supply.View, error) {
	v, scaled, err := r.Scaling(ctx)
	if err != nil || !scaled || !v.EndedAt.IsZero() {
		return nil, err
	}
	return &v, nil
}
