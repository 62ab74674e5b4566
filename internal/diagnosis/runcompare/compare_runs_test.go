package runcompare

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// side is a run whose steps take about so long, of which it waited a share.
func side(name string, n int, sec, wait, noise float64, seed uint64) Side {
	r := rand.New(rand.NewPCG(seed, 1))
	s := Side{Status: runstatus.RunStatus{Spec: runspec.Spec{Name: rollout.RunName(name), Model: "m",
		Environment: runspec.Environment{Kind: "diplomacy"}, Group: runspec.GroupSpec{Samples: 2},
		Buffer: runspec.BufferSpec{Depth: 2, GroupsPerStep: 2}}},
		Attempts: runstatus.AttemptCounts{Finished: 10, Failed: 1}}
	for i := range n {
		wall := sec + noise*r.NormFloat64()
		s.Steps = append(s.Steps, steprecord.StepRecord{Step: rollout.Step(i + 1), Done: true,
			Trainer: steprecord.StepReport{WallSec: wall, Phases: map[steprecord.Phase]float64{"wait": wait * wall,
				"train": (1 - wait) * wall},
				Metrics: map[string]float64{"loss": 1 + noise*r.NormFloat64()}},
			Service: steprecord.ServiceView{Fleet: steprecord.FleetView{Engines: 2, OutputTPS: 100}}})
	}
	return s
}

func find(c Comparison, name string) Measure {
	i := slices.IndexFunc(c.Measures, func(m Measure) bool { return m.Name == name })
	if i < 0 {
		return Measure{}
	}
	return c.Measures[i]
}

func TestDifferencesThatMatterComeFirst(t *testing.T) {
	t.Parallel()
	b := side("b", 40, 20, 0.5, 1, 2)
	b.Attempts.Failed = 5
	c := Compare(side("a", 40, 10, 0.1, 1, 1), b)
	if first := c.Measures[0]; !first.Clear {
		t.Errorf("first is %+v", first)
	}
	unclear := false
	for _, m := range c.Measures {
		if m.Clear && unclear {
			t.Errorf("%s is clear, and comes after one that is not", m.Name)
		}
		unclear = unclear || !m.Clear
	}
	m := find(c, "step time")
	if !m.Clear || m.Better != "a" || m.Ratio < 0.9 || m.Ratio > 1.1 || m.Diff.Half > 2 {
		t.Errorf("%+v", m)
	}
	if m := find(c, "starved share"); !m.Clear || m.Better != "a" {
		t.Errorf("%+v", m)
	}
	if m := find(c, "trainer's loss"); m.Clear || m.Better != "" {
		t.Errorf("chance counts as a difference: %+v", m)
	}
	if m := find(c, "failures per game"); m.Diff.Known() || m.Clear {
		t.Errorf("one figure has an interval: %+v", m)
	}
}

// TestAlikeRunsSeldomDiffer: of runs that are alike, about one in twenty differs for sure, and surely not one in five.
func TestAlikeRunsSeldomDiffer(t *testing.T) {
	t.Parallel()
	clear := 0
	const times = 15
	for i := range times {
		if find(Compare(side("a", 30, 10, 0.2, 1, uint64(2*i)), side("b", 25, 10, 0.2, 2, uint64(2*i+1))),
			"step time").Clear {
			clear++
		}
	}
	if clear > times/5 {
		t.Errorf("%d of %d", clear, times)
	}
}

func TestSpecsAndNotes(t *testing.T) {
	t.Parallel()
	a, b := side("a", 3, 10, 0, 0, 1), side("b", 1, 10, 0, 0, 1)
	b.Status.Spec.Model, b.Status.Spec.Buffer.Depth, b.Status.Spec.Group.Samples = "other", 4, 3
	c := Compare(a, b)
	var keys []string
	for _, s := range c.Settings {
		keys = append(keys, s.Key+"="+s.A+">"+s.B)
	}
	if got := strings.Join(keys, " "); got != "buffer.depth=2>4 group.samples=2>3 model=m>other" {
		t.Error(got)
	}
	all := strings.Join(c.Notes, "\n")
	for _, want := range []string{"the models differ (m, other)", "a step is 4 games of the one and 6 of the other",
		"run b has 1 completed steps"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if notes := strings.Join(Compare(a, a).Notes, "\n"); notes != "it is the same run twice" {
		t.Error(notes)
	}
	if c := Compare(Side{}, Side{}); len(c.Measures) != 0 {
		t.Errorf("%+v", c.Measures)
	}
}
