package diagnosis

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/changepoint"
	"github.com/millrace/millrace/internal/rollout"
)

// levelOf sums up the steps of a stretch.
func (l *ledger) levelOf(s stretch) Level {
	level := Level{
		From:     l.steps[s.from].no,
		To:       l.steps[s.to-1].no,
		Steps:    s.to - s.from,
		StepSec:  l.mean(s.usual, (*step).seconds),
		PhaseSec: map[rollout.Phase]float64{},
		Wait:     l.waitParts(s.usual),
		ReadyDepth: l.mean(s.usual, func(s *step) float64 {
			return s.view().ReadyDepth
		}),
	}
	for i, phase := range rollout.Phases() {
		level.PhaseSec[phase] = l.mean(s.usual, func(s *step) float64 { return s.phases[i] })
	}
	f := l.fleetOver(s.usual)
	level.SlotShare, level.BusyShare, level.Engines = f.slotShare, f.busyShare, f.engines
	return level
}

// shiftsOf attributes each change of level to the phases. Before and after are the means of the
// adjacent levels without their slow steps, so the phases' parts sum to the shift exactly.
func (l *ledger) shiftsOf(r changepoint.Result, levels []stretch, events []Event) []Shift {
	shifts := []Shift{}
	for i, c := range r.Changes {
		before, after := levels[i], levels[i+1]
		shift := Shift{
			At:        l.steps[c.At].no,
			Confirmed: c.Confirmed,
			Ratio:     c.Ratio,
			Typical:   &Interval{c.Shift.Estimate, c.Shift.Low, c.Shift.High, c.Shift.Coverage},
			Events:    l.eventsNear(c.At, events),
		}
		for _, w := range c.Where {
			shift.Where = append(shift.Where, l.steps[w].no)
		}
		shift.attribute(l, before, after)
		shifts = append(shifts, shift)
	}
	return shifts
}

// riseOf joins the shifts by which steps got slower, one after another, up to the present: a jump
// that takes two shifts is one jump to whoever asks. It lies where the largest of them does.
func (l *ledger) riseOf(shifts []Shift, levels []stretch) *Shift {
	first := riseBase(shifts)
	if first == len(shifts) {
		return nil
	}
	rise := slices.MaxFunc(shifts[first:], func(a, b Shift) int { return cmp.Compare(a.DeltaSec, b.DeltaSec) })
	if first == len(shifts)-1 {
		return &rise
	}
	before, after := levels[first], levels[len(levels)-1]
	rise.attribute(l, before, after)
	rise.Ratio = 1 + rise.DeltaSec/(l.mean(after.usual, (*step).seconds)-rise.DeltaSec)
	rise.Typical = nil // of one of the shifts only
	return &rise
}

// riseBase is the level before the last run of shifts towards slower steps; the last level if there is none.
func riseBase(shifts []Shift) int {
	first := len(shifts)
	for first > 0 && shifts[first-1].DeltaSec > 0 {
		first--
	}
	return first
}

// attribute splits the difference of two levels' means by phases.
func (s *Shift) attribute(l *ledger, before, after stretch) {
	s.Phases = l.phaseDeltas(before, after)
	s.DeltaSec = l.mean(after.usual, (*step).seconds) - l.mean(before.usual, (*step).seconds)
	for i := range s.Phases {
		if s.DeltaSec != 0 {
			s.Phases[i].Share = s.Phases[i].DeltaSec / s.DeltaSec
		}
	}
	s.First = slices.MaxFunc(s.Phases, func(a, b PhaseDelta) int { return cmp.Compare(a.Share, b.Share) }).Phase
}

func (l *ledger) phaseDeltas(before, after stretch) []PhaseDelta {
	var out []PhaseDelta
	for i, phase := range rollout.Phases() {
		of := func(s *step) float64 { return s.phases[i] }
		d := PhaseDelta{Phase: phase, BeforeSec: l.mean(before.usual, of), AfterSec: l.mean(after.usual, of)}
		d.DeltaSec = d.AfterSec - d.BeforeSec
		out = append(out, d)
	}
	return out
}

// eventsNear lists what was done from one step before the shift to one step after it began.
func (l *ledger) eventsNear(at int, events []Event) []Event {
	from, _ := l.steps[max(0, at-1)].span()
	_, to := l.steps[at].span()
	var out []Event
	for _, e := range events {
		if !to.IsZero() && !e.At.Before(from) && !e.At.After(to) {
			out = append(out, e)
		}
	}
	return out
}

// span is the step on the service's clock.
func (s *step) span() (from, to time.Time) {
	v := s.view()
	to = v.CompletedAt
	if to.IsZero() && !v.GrantedAt.IsZero() {
		to = v.GrantedAt.Add(time.Duration(s.compute() * float64(time.Second)))
	}
	return v.FirstAskedAt, to
}

// slowStepsOf explains each single step far above its level by the phase that grew most.
func (l *ledger) slowStepsOf(r changepoint.Result, levels []stretch) []SlowStep {
	slow := []SlowStep{}
	for _, level := range levels {
		for i := level.from; i < level.to; i++ {
			s := &l.steps[i]
			usual := l.mean(level.usual, (*step).seconds)
			if slices.Contains(level.usual, i) || s.wall < usual {
				continue
			}
			one := SlowStep{Step: s.no, Sec: s.wall, LevelSec: usual, FirstSec: math.Inf(-1), Last: r.Tail > 0 && i == len(l.steps)-1}
			for p, phase := range rollout.Phases() {
				over := s.phases[p] - l.mean(level.usual, func(s *step) float64 { return s.phases[p] })
				if over > one.FirstSec {
					one.First, one.FirstSec = phase, over
				}
			}
			slow = append(slow, one)
		}
	}
	return slow
}

// The least wait that counts as starvation, as a share of the compute time: polling and hand-over
// cost a little in every run.
const starvedShare = 0.10

func (l *ledger) starved(i int, compute float64) bool {
	return l.steps[i].wait() > starvedShare*compute
}

// starvation finds the last stretch of starved steps. It is measured, not inferred: the trainer
// knows that it waited. calm steps without a wait end it.
func (l *ledger) starvation(calm int) *Starvation {
	n := len(l.steps)
	if n == 0 {
		return nil
	}
	compute := medianOf(l.steps, (*step).compute)
	last := -1
	for i := range n {
		if l.starved(i, compute) {
			last = i
		}
	}
	if last < 0 {
		return nil
	}
	first, quiet := last, 0
	for i := last - 1; i >= 0 && quiet < calm; i-- {
		if quiet++; l.starved(i, compute) {
			first, quiet = i, 0
		}
	}
	end := n
	if n-1-last >= calm {
		end = last + 1
	}
	return l.starvationOver(first, end, compute)
}

func (l *ledger) starvationOver(first, end int, compute float64) *Starvation {
	s := &Starvation{Since: l.steps[first].no}
	wall := 0.0
	for i := first; i < end; i++ {
		if l.starved(i, compute) {
			s.Steps++
		}
		s.WaitSec += l.steps[i].wait() / float64(end-first)
		wall += l.steps[i].wall / float64(end-first)
	}
	s.Share = s.WaitSec / wall
	if end < len(l.steps) {
		until := l.steps[end].no
		s.Until = &until
	}
	return s
}

func medianOf(steps []step, of func(*step) float64) float64 {
	values := make([]float64, len(steps))
	for i := range steps {
		values[i] = of(&steps[i])
	}
	return median(values)
}

// median is the middle of the values; 0 for none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
