package loadprobe

import (
	"math"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// steps are records of a run whose engines have n requests in flight each and give x tokens per second at it.
func steps(from, to int, engines, n, x, wall float64) []steprecord.StepRecord {
	var records []steprecord.StepRecord
	for k := from; k < to; k++ {
		records = append(records, steprecord.StepRecord{
			Step: rollout.Step(k), Done: true, Trainer: steprecord.StepReport{WallSec: wall},
			Service: steprecord.ServiceView{
				GrantedAt: began.Add(time.Duration(k) * time.Minute),
				Groups:    []steprecord.GroupView{{Usage: rollout.Usage{ExecSec: n * engines * wall}}},
				Fleet: steprecord.FleetView{WindowSec: wall, Engines: engines, InFlight: n,
					InputTPS: 0.9 * x * engines, OutputTPS: 0.1 * x * engines},
			},
		})
	}
	return records
}

// TestChoose halves what a run itself has in flight, over its latest steps.
func TestChoose(t *testing.T) {
	t.Parallel()
	early, late := steps(0, 5, 2, 80, 1000, 100), steps(5, 9, 2, 42, 1000, 200)
	for _, tt := range []struct {
		name    string
		records []steprecord.StepRecord
		limit   int
		within  time.Duration
		refused bool
	}{
		{"of the latest steps", append(early, late...), 21, 8000 * time.Second, false},
		{"an odd number is halved downwards", steps(0, 4, 1, 9, 100, 1), 4, 10 * time.Minute, false},
		{"one request is left", steps(0, 4, 1, 2, 100, 1), 1, 10 * time.Minute, false},
		{"a long step bounds it by six hours", steps(0, 4, 1, 9, 100, 4000), 4, 6 * time.Hour, false},
		{"hardly anything is in flight", steps(0, 4, 1, 1.5, 100, 1), 0, 0, true},
		{"no step yet", nil, 0, 0, true},
		{"no samples", steps(0, 4, 0, 9, 100, 1), 0, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := Choose("demo", tt.records, 2)
			if (err != nil) != tt.refused || p.Limit != tt.limit || p.For != tt.within {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// TestJudge tells saturated engines from those with room by what half the load does to the tokens per second.
func TestJudge(t *testing.T) {
	t.Parallel()
	p := runstatus.LoadProbe{Limit: 21, FirstStep: 11, LastStep: 12, Since: began.Add(9*time.Minute + time.Second)}
	for _, tt := range []struct {
		name    string
		n, x    float64 // during the probe; before it is 42 and 13,000
		engines float64
		want    Finding
		slope   float64
	}{
		{"as many tokens with half the requests", 21, 13_000, 1, Saturated, 0},
		{"a little fewer", 21, 11_500, 1, Saturated, 0.177},
		{"half as many", 21, 6_500, 1, HasRoom, 1},
		{"in between", 21, 9_200, 1, Between, 0.499},
		{"more engines meanwhile", 21, 13_000, 3, Saturated, 0},
		{"the load did not fall", 40, 13_000, 1, Undecided, 0},
		{"nothing came", 21, 0, 1, Undecided, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			records := append(steps(0, 10, 1, 42, 13_000, 12), steps(10, 14, tt.engines, tt.n, tt.x, 12)...)
			a := Judge(p, records)
			if a.Finding != tt.want || math.Abs(a.Elasticity-tt.slope) > 0.001 {
				t.Errorf("%s, elasticity %.3f; %+v %+v", a.Finding, a.Elasticity, a.Before, a.During)
			}
			if a.Before.Steps != 4 || a.During.Steps != 2 {
				t.Errorf("%d steps before, %d during", a.Before.Steps, a.During.Steps)
			}
		})
	}
	if a := Judge(p, steps(0, 9, 1, 42, 13_000, 12)); a.Finding != Undecided {
		t.Errorf("without its steps: %s", a.Finding)
	}
}
