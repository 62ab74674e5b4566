package diagnosisinput

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/recordinput"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// eventsPage is how many events are read at once.
const eventsPage = 5_000

// clockSkew is how far the clocks of Redis and of whoever reports an event may be apart.
const clockSkew = time.Minute

// diagnosedKinds are the kinds of facts that addEvents makes something of. No others are read: there are hundreds of
// games in a step.
var diagnosedKinds = []string{
	telemetry.KindOf(telemetry.AdapterLoaded{}), telemetry.KindOf(telemetry.GroupDropped{}),
	telemetry.KindOf(telemetry.RewardVarianceChanged{}), telemetry.KindOf(telemetry.RunChanged{}),
	telemetry.KindOf(telemetry.EngineChanged{}), telemetry.KindOf(telemetry.EnginePaced{}),
	telemetry.KindOf(telemetry.FleetScaled{}), telemetry.KindOf(telemetry.FleetMeasured{}),
}

// readEvents adds all events of a scope since a time, page by page.
func (r Reader) readEvents(ctx context.Context, in *diagnosis.Input, scope rollout.RunName, since time.Time) error {
	after := fmt.Sprintf("%d-0", max(0, since.Add(-clockSkew).UnixMilli())) // ids are by the clock of Redis
	for {
		facts, err := r.Events.Facts(ctx, scope, after, eventsPage, diagnosedKinds...)
		if err != nil {
			return err
		}
		if err := addEvents(in, facts, since); err != nil {
			return err
		}
		if len(facts) < eventsPage {
			return nil
		}
		after = facts[len(facts)-1].ID
	}
}

// addEvents turns events since a time into those that diagnosis compares with step times. It ignores events of a kind
// that only another program version knows.
func addEvents(in *diagnosis.Input, facts []store.Record, since time.Time) error {
	for _, f := range facts {
		e, err := f.Event()
		if errors.Is(err, telemetry.ErrUnknownKind) {
			continue
		}
		if err != nil {
			return fmt.Errorf("event %s: %w", f.ID, err)
		}
		if e.At.Before(since) {
			continue
		}
		recordinput.Add(in, e)
	}
	return nil
}
