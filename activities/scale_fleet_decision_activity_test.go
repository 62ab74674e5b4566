package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/provider"
	"github.com/millrace/millrace/internal/scaling/provider/memory"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// toldFleet is a fleet without engines that keeps what is told of it.
type toldFleet struct {
	ScaledFleet
	view   supply.View
	scaled bool
}

func (*toldFleet) Bought(context.Context) ([]supply.Member, []enginestate.Engine, error) {
	return nil, nil, nil
}

func (*toldFleet) Removed(context.Context) ([]rollout.EngineID, error) { return nil, nil }

func (f *toldFleet) SaveScaling(_ context.Context, v supply.View) error {
	f.view, f.scaled = v, true
	return nil
}

func (f *toldFleet) Scaling(context.Context) (supply.View, bool, error) {
	return f.view, f.scaled, nil
}

// oneRunSampled is a fleet that one run uses.
type oneRunSampled struct{}

func (oneRunSampled) Sample(context.Context, json.RawMessage) (scaling.Sample, json.RawMessage, error) {
	return scaling.Sample{At: time.Now().UTC(), Sec: 1, ColdStartSec: 60, Runs: []scaling.Run{{Name: "r"}}}, nil, nil
}

// A workflow that was lost, with all that it remembered, is followed by one that goes on with what was told last.
func TestScalingGoesOnWhereItsWorkflowWasLost(t *testing.T) {
	t.Parallel()
	configured := scaling.Config{Policy: scaling.Fixed, Engines: 2, Max: 6, Price: 36}
	was := configured
	was.Engines = 5
	last := supply.View{
		Settings: was, Set: []string{"engines"}, Wanted: 5, Cost: 12.5, Started: 9,
		Decisions: []scaling.Decision{{No: 3, From: 2, To: 5}},
	}
	byQueue := configured
	byQueue.Policy, byQueue.Max = scaling.Queue, 8
	byQueue.Queue = scaling.QueueConfig{TargetInputs: 8, ScaleDown: rollout.Duration(time.Minute)}

	for _, tt := range []struct {
		name       string
		configured scaling.Config
		change     func(last *supply.View)
		wanted     int
		decided    int // by the first look
		overrides  int
	}{
		{"an operator had set 5 engines", configured, func(*supply.View) {}, 5, 0, 1},
		{"nobody had set anything", was, func(v *supply.View) { v.Set = nil }, 5, 0, 0},
		{"the configuration is another one by now", byQueue, func(*supply.View) {}, 5, 0, 0},
		{"and wants fewer", configured, func(v *supply.View) { v.Settings.Max = 7 }, 2, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := &toldFleet{view: last, scaled: true}
			tt.change(&f.view)
			a := &Scaling{Provider: memory.NewCloud().Provider("lost"), Sampler: oneRunSampled{}, Fleet: f, Now: time.Now,
				Log: slog.New(slog.DiscardHandler)}
			in := ScaleInput{Configured: ScalingConfig{Provider: "memory", Window: rollout.Duration(time.Second),
				Config: tt.configured}}
			result, err := a.ScaleFleet(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if len(result.Decided) != tt.decided || len(result.Overrides) != tt.overrides {
				t.Errorf("decided %+v, overrides %v; want %d and %d", result.Decided, result.Overrides, tt.decided, tt.overrides)
			}
			for _, d := range result.Decided {
				if d.No != 4 || d.From != 5 {
					t.Errorf("%+v does not follow from the decision before", d)
				}
			}
			v := f.view
			if v.Wanted != tt.wanted || v.Cost < last.Cost || v.Started < last.Started || len(v.Set) != tt.overrides {
				t.Errorf("%d wanted, $%g, %d started, set %v; want %d, $12.5, 9, %d", v.Wanted, v.Cost, v.Started, v.Set,
					tt.wanted, tt.overrides)
			}
			in.State, in.Overrides = result.State, result.Overrides // as the workflow keeps them
			if _, err := a.ScaleFleet(t.Context(), in); err != nil || f.view.Wanted != tt.wanted {
				t.Errorf("%d wanted at the next look, %v", f.view.Wanted, err)
			}
		})
	}
}

// What a provider says of a call that took too long is told as it is: how long each may take is its own affair.
func TestTroubleIsToldInTheProvidersWords(t *testing.T) {
	t.Parallel()
	a := &Scaling{Provider: slowProvider{}, Sampler: oneRunSampled{}, Fleet: &toldFleet{}, Now: time.Now,
		Log: slog.New(slog.DiscardHandler)}
	started, err := a.PerformScaling(t.Context(), supply.Command{Do: supply.DoStart, ID: "scaled-1"})
	if want := "start engine scaled-1: killed after 2m0s: context deadline exceeded"; err != nil || started.Fault != want {
		t.Errorf("a start: %q, %v; want %q", started.Fault, err, want)
	}
	looked, err := a.ScaleFleet(t.Context(), ScaleInput{Configured: ScalingConfig{Window: rollout.Duration(time.Second),
		Config: scaling.Config{Policy: scaling.Fixed, Max: 1}}})
	want := "list engines: killed after 20s: context deadline exceeded"
	if got := looked.State.Pool.Trouble; err != nil || got != want {
		t.Errorf("a list: %q, %v; want %q", got, err, want)
	}
}

// slowProvider gives up its calls by itself.
type slowProvider struct{ provider.Provider }

func (slowProvider) Start(context.Context, rollout.EngineID) error {
	return fmt.Errorf("start engine scaled-1: killed after 2m0s: %w", context.DeadlineExceeded)
}

func (slowProvider) List(context.Context) ([]provider.Instance, error) {
	return nil, fmt.Errorf("list engines: killed after 20s: %w", context.DeadlineExceeded)
}
