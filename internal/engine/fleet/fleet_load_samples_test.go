package fleet_test

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

func TestMean(t *testing.T) {
	t.Parallel()
	at := func(sec float64) time.Time { return time.UnixMilli(int64(1e6 + sec*1000)) }
	busy := func(sec float64) fleet.Sample {
		return fleet.Sample{At: at(sec), WindowSec: 1, Engines: 2, Busy: 2, InFlight: 8, Limit: 16, Queued: 4, OutputTPS: 100}
	}
	idle := func(sec float64) fleet.Sample {
		return fleet.Sample{At: at(sec), WindowSec: 1, Engines: 2, Limit: 16}
	}
	full := steprecord.FleetView{
		WindowSec: 2, Engines: 2, BusyShare: 1, SlotShare: 0.5, InFlight: 4, QueuedRequests: 4, OutputTPS: 100,
	}
	half := steprecord.FleetView{
		WindowSec: 2, Engines: 2, BusyShare: 0.5, SlotShare: 0.25, InFlight: 2, QueuedRequests: 2, OutputTPS: 50,
	}
	for _, tt := range []struct {
		name    string
		samples []fleet.Sample
		want    steprecord.FleetView
	}{
		{"nothing known", nil, steprecord.FleetView{}},
		{"covered", []fleet.Sample{busy(1), busy(2)}, full},
		{"half of the time", []fleet.Sample{idle(1), busy(2)}, half},
		{"windows cut at both ends", []fleet.Sample{idle(0.5), busy(1.5), idle(2.5)}, half},
		{"two Keepers at once", []fleet.Sample{busy(1), busy(1), busy(1.5), busy(2)}, full},
		{"outside", []fleet.Sample{busy(-1), busy(0), busy(3)}, steprecord.FleetView{}},
		{"no engines", []fleet.Sample{{At: at(2), WindowSec: 2}}, steprecord.FleetView{WindowSec: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := fleet.Mean(tt.samples, at(0), at(2)); got != tt.want {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestSamplerKeepsWhatItIsGiven(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := fleet.NewSampler(newRedis(t), "test")
	start := time.UnixMilli(1_700_000_000_000)
	engines := []enginestate.Engine{
		{State: enginestate.EngineReady, MaxInFlight: 8,
			Load: enginestate.EngineLoad{Running: 3, Waiting: 1, OutputTPS: 10, InputTPS: 200}},
		{State: enginestate.EngineReady, MaxInFlight: 8},
		{State: enginestate.EngineLost, MaxInFlight: 8, Load: enginestate.EngineLoad{Running: 9}},
	}
	for i := range 10 {
		at := start.Add(time.Duration(i+1) * time.Second)
		for range 2 { // the second time in the same millisecond
			if err := s.Record(ctx, fleet.Summarise(at, time.Second, engines, 7)); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := s.View(ctx, "", start.Add(2500*time.Millisecond), start.Add(7500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	want := steprecord.FleetView{
		WindowSec: 5, Engines: 2, BusyShare: 0.5, SlotShare: 0.25, InFlight: 2, QueuedRequests: 7, InputTPS: 200,
		OutputTPS: 10,
	}
	if got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// A keeper whose clock is behind the one before it is heard all the same, and its samples have its own time.
func TestAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := fleet.NewSampler(newRedis(t), "test")
	engines := []enginestate.Engine{{State: enginestate.EngineReady, MaxInFlight: 8,
		Load: enginestate.EngineLoad{Running: 4}}}
	start := time.UnixMilli(1_700_000_000_000)
	if err := s.Record(ctx, fleet.Summarise(start.Add(time.Hour), time.Second, engines, 0)); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		at := start.Add(time.Duration(i+1) * time.Second)
		if err := s.Record(ctx, fleet.Summarise(at, time.Second, engines, 0)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.View(ctx, "", start, start.Add(5*time.Second))
	if err != nil || got.WindowSec != 5 || got.InFlight != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestEnginesOfAnotherModel: what a run's base model has of a fleet is none of another model's.
func TestEnginesOfAnotherModel(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := fleet.NewSampler(newRedis(t), "test")
	start := time.UnixMilli(1_700_000_000_000)
	engine := func(models ...string) enginestate.Engine {
		return enginestate.Engine{State: enginestate.EngineReady, MaxInFlight: 8, Models: models,
			Load: enginestate.EngineLoad{Running: 4}}
	}
	engines := []enginestate.Engine{engine("a"), engine("a"), engine("b"), engine()}
	if err := s.Record(ctx, fleet.Summarise(start.Add(time.Second), time.Second, engines, 0)); err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]float64{"a": 3, "b": 2, "": 4, "unseen": 4} {
		got, err := s.View(ctx, model, start, start.Add(time.Second))
		if err != nil || got.Engines != want || got.InFlight != 4 {
			t.Errorf("of model %q: %+v, %v; want %v engines", model, got, err, want)
		}
	}
}
