package telemetry_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// bodies is one value of every kind; TestEncodeRoundTrip counts them.
func bodies() []telemetry.Body {
	ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "demo", Seq: 3}, Sample: 1}
	return []telemetry.Body{
		telemetry.Audit{Who: "alice", Role: "operator", From: "10.0.0.9", What: "change-run", Target: "run demo",
			Status: 200, RequestID: "r",
			Before: map[string]string{"buffer.depth": "2"}, After: map[string]string{"buffer.depth": "3"}},
		telemetry.RunChanged{State: runstatus.RunRunning, Change: "start"},
		telemetry.StepCompleted{Record: steprecord.StepRecord{
			Step: 3, Done: true,
			Trainer: steprecord.StepReport{WallSec: 5, Phases: map[steprecord.Phase]float64{steprecord.PhaseWait: 2}},
			Service: steprecord.ServiceView{Groups: []steprecord.GroupView{{Seq: 3, EpisodeSec: []float64{1, 2}}}},
		}},
		telemetry.RewardVarianceChanged{RewardVariance: runstatus.RewardVariance{Groups: 32, ZeroVariance: 30,
			Collapsed: true}},
		telemetry.BatchClaimed{Step: 3, Counts: steprecord.BufferCounts{Ready: 8}, StarvedSec: 1.5, StalenessInFlightMean: 1,
			ZeroVarianceGroups: 2},
		telemetry.BufferLevel{Counts: steprecord.BufferCounts{Ready: 8}, Target: 16, StarvedSec: 0.5, WindowSec: 1,
			Cause: steprecord.StarvedQueue, Step: new(rollout.Step), MadeUp: true,
			Throttle: runstatus.ThrottleBytes, RewardVariance: runstatus.RewardVariance{Groups: 32, ZeroVariance: 2}},
		telemetry.AlarmChanged{Raised: true, Code: runstatus.AlarmGamesFail, Text: "every game fails",
			Advice: "see the events"},
		telemetry.Diagnosed{Verdict: "problem", Was: "healthy", Cause: "throughput", Step: 12, Since: 9, Goodput: 0.5,
			StepSec: 300, Text: "the engines need 300 s for a batch"},
		telemetry.GroupReady{Group: steprecord.GroupView{Seq: 3, Usage: rollout.Usage{Requests: 9}, Phases: []int{8, 9},
			ZeroVariance: true}, Trajectories: 42},
		telemetry.GroupDropped{Seq: 3, Code: "stale", Phases: []int{8, 9}},
		telemetry.EpisodeFinished{Ref: ref, WallSec: 4, Counts: map[string]int64{"holds": 2}},
		telemetry.EpisodeFailed{Ref: ref, Code: "timeout", Failure: "no answer", Attempt: 2,
			Usage: rollout.Usage{Requests: 3, OutputTokens: 40}},
		telemetry.AdapterLoaded{Adapter: "demo-v1", Version: 1, Sec: 0.8},
		telemetry.AdapterChanged{Adapter: "demo-v1", Version: 1, Path: "/adapters/demo-v1", Reason: "changed"},
		telemetry.PolicyPublished{Policy: runstatus.Policy{Version: 1, Adapter: "demo-v1",
			LoadSec: map[rollout.EngineID]float64{"a": 0.8}}},
		telemetry.EngineChanged{State: enginestate.EngineLost, Reason: "refused"},
		telemetry.EnginePaced{Slow: "12 tokens/s"},
		telemetry.FleetScaled{Decision: 1, From: 1, To: 3, Code: "buys", Reason: "demo is capacity-bound",
			Predicted: []telemetry.ScalingEffect{{Run: "demo", BeforeSec: 80, PredictedSec: 40}}, Cost: 1.5},
		telemetry.FleetMeasured{Decision: 1, From: 1, To: 3, Text: "shortened",
			Effects: []telemetry.ScalingEffect{{Run: "demo", BeforeSec: 80, PredictedSec: 40, MeasuredSec: 42}}},
		telemetry.ProviderChanged{Provider: "exec", Trouble: "quota exceeded"},
		telemetry.BreakerChanged{Worker: "w", Open: true, Reason: "3 requests in a row got no answer"},
		telemetry.SinkChanged{Sink: "axiom", State: telemetry.SinkDegraded, Reason: "403", Advice: "check the token"},
		telemetry.EngineSample{Load: enginestate.EngineLoad{Running: 3, OutputTPS: 120, QueueSec: 0.5, UsageInputError: 0.25,
			UsageWindowSec: 60}},
		telemetry.TokenRates{Version: 3, Adapter: "demo-v3", WindowSec: 15, InputTokens: 900, OutputTokens: 40,
			CachedTokens: 800, Requests: 9},
		telemetry.DispatchSample{WindowSec: 1, Queued: 4, InFlight: map[rollout.EngineID]int{"a": 3}, OutputTPS: 30,
			ByVersion: map[rollout.PolicyVersion]telemetry.TokenRate{1: {OutputTPS: 10}, 12: {OutputTPS: 20}}},
	}
}

func TestEncodeRoundTrip(t *testing.T) {
	t.Parallel()
	if n := len(bodies()); n != telemetry.KindCount() {
		t.Errorf("%d of %d kinds are tried", n, telemetry.KindCount())
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	for _, body := range bodies() {
		e := telemetry.Event{At: at, Run: "demo", Engine: "a", Key: "k/1", Body: body}
		t.Run(e.Kind(), func(t *testing.T) {
			t.Parallel()
			b, err := telemetry.Encode(e)
			if err != nil {
				t.Fatal(err)
			}
			var fields map[string]any
			if err := json.Unmarshal(b, &fields); err != nil {
				t.Fatalf("%s: %v", b, err)
			}
			if fields["kind"] != e.Kind() || fields["run_id"] != "demo" || fields["engine_id"] != "a" ||
				fields["event_id"] != e.ID() {
				t.Errorf("encoded as %s", b)
			}
			got, err := telemetry.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, e) {
				t.Errorf("got  %+v\nwant %+v", got, e)
			}
		})
	}
}

// TestBodiesLeaveTheHeaderAlone keeps a new field from being taken for one that every event has.
func TestBodiesLeaveTheHeaderAlone(t *testing.T) {
	t.Parallel()
	for _, body := range bodies() {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(b, &fields); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"kind", "_time", "event_id", "run_id", "engine_id", "event_key"} {
			if _, taken := fields[name]; taken {
				t.Errorf("%T has a field %s", body, name)
			}
		}
	}
}

func TestEventID(t *testing.T) {
	t.Parallel()
	at := time.Unix(7, 5)
	for _, tt := range []struct {
		event telemetry.Event
		want  string
	}{
		{telemetry.Event{At: at, Run: "demo", Key: "3", Body: telemetry.StepCompleted{}}, "demo/training_step/3"},
		{telemetry.Event{At: at, Engine: "a", Key: "lost/9", Body: telemetry.EngineChanged{}},
			"fleet/engine_changed/a/lost/9"},
		{telemetry.Event{At: at, Engine: "a", Body: telemetry.EngineSample{}}, "fleet/engine_sample/a/7000000005"},
	} {
		if got := tt.event.ID(); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// TestDecodeOfAnotherVersion tells an event of a newer version, which a reader may skip, from a broken one.
func TestDecodeOfAnotherVersion(t *testing.T) {
	t.Parallel()
	if _, err := telemetry.Decode([]byte(`{"kind":"not_yet","x":1}`)); !errors.Is(err, telemetry.ErrUnknownKind) {
		t.Errorf("unknown kind: %v", err)
	}
	for _, broken := range []string{`{`, `{"kind":"buffer_level","target":"many"}`} {
		if _, err := telemetry.Decode([]byte(broken)); err == nil || errors.Is(err, telemetry.ErrUnknownKind) {
			t.Errorf("%s: %v", broken, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, body := range bodies() {
		b, err := telemetry.Encode(telemetry.Event{Body: body})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := telemetry.Decode(b)
		if err != nil {
			return
		}
		if _, err := telemetry.Encode(e); err != nil {
			t.Skip("a time that JSON cannot write:", err)
		}
	})
}
