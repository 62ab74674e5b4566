package fleet_test

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// TestAStateAndItsEventCannotPart: what was seen of an engine and the event of it are written at once, however often
// the call is made and whatever becomes of the keeper then; of an engine that has left nothing is told.
func TestAStateAndItsEventCannotPart(t *testing.T) {
	t.Parallel()
	ctx, rdb := t.Context(), newRedis(t)
	r := fleet.NewRegistry(rdb, "test", time.Now)
	if _, err := r.Add(ctx, enginestate.Engine{ID: "a", URL: "http://a:8000"}); err != nil {
		t.Fatal(err)
	}
	lost := fleet.Observation{State: enginestate.EngineLost, Reason: "refused"}
	of := func(id rollout.EngineID) telemetry.Event {
		return telemetry.Event{At: time.Unix(1, 0).UTC(), Engine: id, Key: "lost/1",
			Body: telemetry.EngineChanged{State: lost.State, Reason: lost.Reason}}
	}
	for _, id := range []rollout.EngineID{"a", "a", "gone"} {
		if err := r.Observe(ctx, id, lost, of(id)); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := store.New(rdb, "test", store.Limits{}).Facts(ctx, "", "", 10)
	if err != nil || len(kept) != 1 {
		t.Fatalf("%d facts, %v", len(kept), err)
	}
	if e, err := kept[0].Event(); err != nil || e.ID() != of("a").ID() {
		t.Errorf("%+v, %v", e, err)
	}
	if got, err := r.Get(ctx, "a"); err != nil || got.State != enginestate.EngineLost {
		t.Errorf("%+v, %v", got, err)
	}
}
