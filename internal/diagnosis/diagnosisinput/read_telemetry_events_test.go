package diagnosisinput

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"

	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// TestFactsOfADiagnosis turns events into what a diagnosis reads: of the time that is looked at, and of kinds that
// are known.
func TestFactsOfADiagnosis(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var facts []store.Record
	note := func(at time.Time, body telemetry.Body) {
		event := telemetry.Event{At: at, Run: "demo", Engine: "a", Body: body}
		data, err := telemetry.Encode(event)
		if err != nil {
			t.Fatal(err)
		}
		facts = append(facts, store.Record{ID: "1-0", Kind: event.Kind(), Data: data})
	}
	collapsed := runstatus.RewardVariance{Groups: 32, ZeroVariance: 30, Collapsed: true}
	note(since.Add(-time.Second), telemetry.GroupDropped{Seq: 1, Code: "shrunk"})
	note(since, telemetry.GroupDropped{Seq: 2, Code: "stale"})
	note(since, telemetry.RewardVarianceChanged{RewardVariance: collapsed})
	note(since, telemetry.RewardVarianceChanged{RewardVariance: runstatus.RewardVariance{Groups: 32, ZeroVariance: 8}})
	note(since, telemetry.RunChanged{Change: "set buffer.depth=4"})
	note(since, telemetry.RunChanged{Change: "no reward variance: all rewards are equal in 30 of the latest 32 groups"})
	note(since, telemetry.AdapterLoaded{Adapter: "demo-v1", Sec: 0.5})
	facts = append(facts, store.Record{ID: "2-0", Kind: "not_yet", Data: json.RawMessage(`{"kind":"not_yet"}`)})

	var in diagnosis.Input
	if err := addEvents(&in, facts, since); err != nil {
		t.Fatal(err)
	}
	if len(in.Drops) != 1 || in.Drops[0] != (diagnosis.Drop{At: since, Code: "stale"}) {
		t.Errorf("drops: %+v", in.Drops)
	}
	if len(in.RewardVarianceChanges) != 2 || in.RewardVarianceChanges[0].RewardVariance != collapsed ||
		len(in.Loads) != 1 {
		t.Errorf("reward variance: %+v, loads: %+v", in.RewardVarianceChanges, in.Loads)
	}
	if e := in.Events; len(e) != 2 || e[0].Kind != diagnosis.EventConfig || e[0].Text != "set buffer.depth=4" ||
		e[1].Kind != diagnosis.EventOther {
		t.Errorf("events: %+v", e)
	}
	if err := addEvents(&in, []store.Record{{ID: "3-0", Data: json.RawMessage(`{`)}}, since); err == nil {
		t.Error("a broken event is passed over")
	}
}
