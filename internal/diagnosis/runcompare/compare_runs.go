// Package runcompare compares two runs: the times, waits, learning and costs of their steps, with intervals that show
// which differences exceed chance; and their specs. Start reading at Compare.
package runcompare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// confidence is how sure a difference must be to count as one.
const confidence = 0.95

// Side is one of the two runs.
type Side struct {
	Status   runstatus.RunStatus
	Attempts runstatus.AttemptCounts
	Steps    []steprecord.StepRecord // completed ones, in their order
	Games    []gamelist.Game         // finished ones with rewards, in the order of their end
	Verdict  string
	// PerEngineHour is an engine's price per hour; 0: not known, and costs are in engine-hours only.
	PerEngineHour float64
}

// Measure is one figure of both runs.
type Measure struct {
	Name   string        `json:"name"`
	Unit   string        `json:"unit"`
	A      stat.Interval `json:"a"`
	B      stat.Interval `json:"b"`
	Diff   stat.Interval `json:"difference"`         // of B from A
	Ratio  float64       `json:"relative,omitempty"` // Diff as a share of A; 0 where A is 0
	Clear  bool          `json:"clear"`              // more than chance: the interval of the difference does not hold 0
	Better string        `json:"better,omitempty"`   // "a", "b", or "" where that cannot be said

	judged bool    // one direction of it is good
	weight float64 // how much the difference matters
}

// Comparison is two runs beside each other.
type Comparison struct {
	Measures []Measure `json:"measures"` // those that differ for sure first, the larger differences before the smaller
	Settings []Setting `json:"settings"`
	Notes    []string  `json:"notes"` // why figures may not be comparable
	Verdicts [2]string `json:"verdicts"`
	Steps    [2]int    `json:"steps"`
}

// better is the good direction of a measure.
type better int

const (
	neither better = iota
	lower
	higher
)

// measured is a measure's values of a run in order of time; their mean is compared.
type measured struct {
	name, unit string
	good       better
	of         func(s *Side) []float64
	part       bool // seconds of the step time
	// interval is the mean where its error does not follow from the values as they are.
	interval func(s *Side) stat.Interval
}

// Compare holds a beside b.
func Compare(a, b Side) Comparison {
	c := Comparison{Settings: Settings(a.Status.Spec, b.Status.Spec), Notes: notes(&a, &b), Measures: []Measure{},
		Verdicts: [2]string{a.Verdict, b.Verdict}, Steps: [2]int{len(a.Steps), len(b.Steps)}}
	stepA, stepB := stat.Mean(stepSeconds(&a), confidence).Mean, stat.Mean(stepSeconds(&b), confidence).Mean
	for _, m := range measures(&a, &b) {
		ia, ib := m.mean(&a), m.mean(&b)
		if ia.N == 0 || ib.N == 0 {
			continue
		}
		one := compare(m, ia, ib)
		if one.same() || m.part && one.negligible(stepA, stepB) {
			continue
		}
		if m.part && stepA > 0 { // a part of the step counts by what it adds to the step
			one.weight = math.Abs(one.Diff.Mean) / stepA
		}
		c.Measures = append(c.Measures, one)
	}
	slices.SortStableFunc(c.Measures, func(x, y Measure) int {
		if x.Clear != y.Clear {
			return map[bool]int{true: -1, false: 1}[x.Clear]
		}
		if x.judged != y.judged { // what is neither good nor bad comes after what is
			return map[bool]int{true: -1, false: 1}[x.judged]
		}
		return cmp.Compare(y.weight, x.weight)
	})
	return c
}

// same reports a figure that is the same in both runs, without any spread.
func (m Measure) same() bool { return m.Diff.Mean == 0 && m.A.Half <= 0 && m.B.Half <= 0 }

// negligible reports a part that is less than a thousandth of the step in both runs.
func (m Measure) negligible(stepA, stepB float64) bool {
	return math.Abs(m.A.Mean) < stepA/1000 && math.Abs(m.B.Mean) < stepB/1000
}

func (m measured) mean(s *Side) stat.Interval {
	if m.interval != nil {
		return m.interval(s)
	}
	return of(m.of(s))
}

func compare(m measured, a, b stat.Interval) Measure {
	out := Measure{Name: m.name, Unit: m.unit, A: a, B: b}
	out.Diff = difference(out.A, out.B)
	if out.A.Mean != 0 {
		out.Ratio = out.Diff.Mean / math.Abs(out.A.Mean)
	}
	out.judged, out.weight = m.good != neither, math.Abs(out.Ratio)
	out.Clear = out.Diff.Known() && out.Diff.Excludes(0) && out.Diff.Mean != 0
	if out.Clear && m.good != neither {
		out.Better = map[bool]string{true: "b", false: "a"}[(m.good == lower) == (out.Diff.Mean < 0)]
	}
	return out
}

// blocks is how many means of neighbours an interval is made from: steps that follow each other are alike, and would
// make it too narrow.
const blocks = 10

// of is a mean with its interval.
func of(values []float64) stat.Interval {
	i := stat.Mean(values, confidence)
	if n := len(values); n >= 2*blocks {
		var means []float64
		for k := range blocks {
			part := values[k*n/blocks : (k+1)*n/blocks]
			means = append(means, stat.Mean(part, confidence).Mean)
		}
		wide := stat.Mean(means, confidence)
		i.Half, i.N = max(i.Half, wide.Half), wide.N
	}
	return i
}

// difference is b less a, with Welch's interval: the two need not vary alike.
func difference(a, b stat.Interval) stat.Interval {
	d := stat.Interval{Mean: b.Mean - a.Mean, Half: -1, N: min(a.N, b.N)}
	if !a.Known() || !b.Known() {
		return d
	}
	va, vb := variance(a), variance(b)
	if va+vb == 0 {
		d.Half = 0
		return d
	}
	degrees := (va + vb) * (va + vb) / (va*va/float64(a.N-1) + vb*vb/float64(b.N-1))
	d.Half = stat.StudentT(confidence, max(1, int(degrees))) * math.Sqrt(va+vb)
	return d
}

// variance is that of an interval's mean.
func variance(i stat.Interval) float64 {
	if i.N < 2 {
		return 0
	}
	deviation := i.Half / stat.StudentT(confidence, i.N-1)
	return deviation * deviation
}

// notes says what makes figures of the two runs incomparable.
func notes(a, b *Side) []string {
	x, y := a.Status.Spec, b.Status.Spec
	notes := []string{}
	note := func(differ bool, format string, args ...any) {
		if differ {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	note(x.Environment.Kind != y.Environment.Kind,
		"the games differ (%s, %s): rewards and lengths are of different things",
		x.Environment.Kind, y.Environment.Kind)
	ex, _ := json.Marshal(x.Environment) // of specs that were read from JSON
	ey, _ := json.Marshal(y.Environment)
	note(x.Environment.Kind == y.Environment.Kind && string(ex) != string(ey),
		"the games are set up differently: rewards and lengths may differ by that alone")
	note(x.Model != y.Model, "the models differ (%s, %s)", x.Model, y.Model)
	gx, gy := x.Buffer.GroupsPerStep*x.Group.Samples, y.Buffer.GroupsPerStep*y.Group.Samples
	note(gx != gy, "a step is %d games of the one and %d of the other: compare seconds per game, not per step", gx, gy)
	for _, s := range []*Side{a, b} {
		note(len(s.Steps) < 2, "run %s has %d completed steps: nothing can be said of how they vary", s.Status.Spec.Name,
			len(s.Steps))
	}
	note(a.Status.Spec.Name == b.Status.Spec.Name && a.Status.ID == b.Status.ID, "it is the same run twice")
	return notes
}
