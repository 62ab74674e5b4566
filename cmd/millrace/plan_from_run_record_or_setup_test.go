package main

import (
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/simulate/plan"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/calibration"
)

// A plan ends with the commands that do what it recommends: to a live run, as far as that can be changed.
func TestNextOfPlan(t *testing.T) {
	t.Parallel()
	setup := sim.DefaultSetup()
	setup.Fleet.Engines, setup.Buffer.Depth, setup.Buffer.GroupsPerStep, setup.Group.Samples = 2, 2, 8, 6
	live := &runstatus.RunStatus{State: runstatus.RunRunning}
	over := &runstatus.RunStatus{State: runstatus.RunCompleted}
	for _, tt := range []struct {
		name   string
		source planSource
		to     plan.Setting
		want   []string
	}{
		{"a live run", planSource{calibrated: &calibratedFrom{}, live: live}, plan.Setting{Engines: 4, Depth: 3, Groups: 8,
			Samples: 6}, []string{"millrace run set r buffer.depth=3", "millrace engine add URL", "millrace engine add URL"}},
		{"a live run, fewer engines", planSource{calibrated: &calibratedFrom{}, live: live}, plan.Setting{Engines: 1,
			Depth: 2, Groups: 8, Samples: 6}, []string{"millrace engine remove ID"}},
		{"a live run as it should be", planSource{calibrated: &calibratedFrom{}, live: live}, plan.Setting{Engines: 2,
			Depth: 2, Groups: 8, Samples: 6}, nil},
		{"a run that is over", planSource{calibrated: &calibratedFrom{}, live: over}, plan.Setting{Engines: 4, Depth: 3,
			Groups: 8, Samples: 6}, []string{"in the spec of the next run: buffer.depth=3"}},
		{"a setup", planSource{}, plan.Setting{Engines: 4, Depth: 2, Groups: 4, Samples: 6},
			[]string{"millrace simulate -f r --set buffer.groups_per_step=4 --set fleet.engines=4"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.source.name, tt.source.setup = "r", setup
			p := &plan.Plan{Recommendations: []plan.Recommendation{{Setting: &tt.to}}}
			if got := tt.source.next(p); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestMeets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fit  calibration.Fit
		want bool
	}{
		{calibration.Fit{MedianError: 0.02, MeanStep: calibration.Pair{Recorded: 10, Simulated: 10.5}}, true},
		{calibration.Fit{MedianError: 0.2, MeanStep: calibration.Pair{Recorded: 10, Simulated: 10}}, false},
		{calibration.Fit{MedianError: 0.02, MeanStep: calibration.Pair{Recorded: 10, Simulated: 8.9}}, false},
	} {
		if got := meets(tt.fit); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.fit, got, tt.want)
		}
	}
}
