package diagnosis

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/changepoint"
	"github.com/millrace/millrace/internal/rollout"
)

// levelOf sums up the steps of a level.
func (h *history) levelOf(s levelSteps) Level {
	level := Level{
		From:     h.steps[s.from].no,
		To:       h.steps[s.to-1].no,
		Steps:    s.to - s.from,
		StepSec:  h.mean(s.usual, (*step).seconds),
		PhaseSec: map[rollout.Phase]float64{},
		Wait:     h.waitParts(s.usual),
		ReadyDepth: h.mean(s.usual, func(s *step) float64 {
			return s.view().ReadyDepth
		}),
	}
	for i, phase := range rollout.Phases() {
		level.PhaseSec[phase] = h.mean(s.usual, phaseSec(i))
	}
	f := h.fleetOver(s.usual)
	level.SlotShare, level.BusyShare, level.Engines = f.slotShare, f.busyShare, f.engines
	return level
}

// shiftsOf attributes each change of level to the phases. Before and after are the means of the
// adjacent levels without their slow steps, so the phases' parts sum to the shift exactly.
func (h *history) shiftsOf(r changepoint.Result, levels []levelSteps, events []Event) []Shift {
	shifts := []Shift{}
	for i, c := range r.Changes {
		before, after := levels[i], levels[i+1]
		shift := Shift{
			At:        h.steps[c.At].no,
			Confirmed: c.Confirmed,
			Ratio:     c.Ratio,
			Typical:   &Interval{c.Shift.Estimate, c.Shift.Low, c.Shift.High, c.Shift.Coverage},
			Events:    h.eventsNear(c.At, events),
		}
		for _, w := range c.Where {
			shift.Where = append(shift.Where, h.steps[w].no)
		}
		shifts = append(shifts, h.attributed(shift, before, after))
	}
	return shifts
}

// riseOf joins the shifts by which steps got slower, one after another, up to the present: a jump
// that takes two shifts is one jump to whoever asks. It lies where the largest of them does.
func (h *history) riseOf(shifts []Shift, levels []levelSteps) *Shift {
	first := riseBase(shifts)
	if first == len(shifts) {
		return nil
	}
	rise := slices.MaxFunc(shifts[first:], func(a, b Shift) int { return cmp.Compare(a.DeltaSec, b.DeltaSec) })
	if first == len(shifts)-1 {
		return &rise
	}
	before, after := levels[first], levels[len(levels)-1]
	rise = h.attributed(rise, before, after)
	rise.Ratio = 1 + rise.DeltaSec/(h.mean(after.usual, (*step).seconds)-rise.DeltaSec)
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

// attributed is the shift as the difference of two levels' means, split by phases.
func (h *history) attributed(s Shift, before, after levelSteps) Shift {
	s.Phases = h.phaseDeltas(before, after)
	s.DeltaSec = h.mean(after.usual, (*step).seconds) - h.mean(before.usual, (*step).seconds)
	for i := range s.Phases {
		if s.DeltaSec != 0 {
			s.Phases[i].Share = s.Phases[i].DeltaSec / s.DeltaSec
		}
	}
	s.First = slices.MaxFunc(s.Phases, func(a, b PhaseDelta) int { return cmp.Compare(a.Share, b.Share) }).Phase
	return s
}

func (h *history) phaseDeltas(before, after levelSteps) []PhaseDelta {
	var out []PhaseDelta
	for i, phase := range rollout.Phases() {
		of := phaseSec(i)
		d := PhaseDelta{Phase: phase, BeforeSec: h.mean(before.usual, of), AfterSec: h.mean(after.usual, of)}
		d.DeltaSec = d.AfterSec - d.BeforeSec
		out = append(out, d)
	}
	return out
}

// eventsNear lists what was done from one step before the shift to one step after it began.
func (h *history) eventsNear(at int, events []Event) []Event {
	from, _ := h.steps[max(0, at-1)].span()
	_, to := h.steps[at].span()
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
		to = v.GrantedAt.Add(seconds(s.compute()))
	}
	return v.FirstAskedAt, to
}

// slowStepsOf explains each single step far above its level by the phase that grew most.
func (h *history) slowStepsOf(r changepoint.Result, levels []levelSteps) []SlowStep {
	slow := []SlowStep{}
	for _, level := range levels {
		for i := level.from; i < level.to; i++ {
			s := &h.steps[i]
			usual := h.mean(level.usual, (*step).seconds)
			if slices.Contains(level.usual, i) || s.wall < usual {
				continue
			}
			last := r.Tail > 0 && i == len(h.steps)-1
			one := SlowStep{Step: s.no, Sec: s.wall, LevelSec: usual, FirstSec: math.Inf(-1), Last: last}
			for p, phase := range rollout.Phases() {
				over := s.phases[p] - h.mean(level.usual, phaseSec(p))
				if over > one.FirstSec {
					one.First, one.FirstSec = phase, over
				}
			}
			slow = append(slow, one)
		}
	}
	return slow
}
