package diagnosis

import (
	"slices"

	"github.com/millrace/millrace/internal/diagnosis/changepoint"
	"github.com/millrace/millrace/internal/rollout"
)

// measurements is what the records of at least one step show, before anything is concluded. Nobody changes it.
type measurements struct {
	history
	in Input
	// recorded is the steps that show what the engines do at a load: which steps are asked about does not change that.
	recorded   []step
	pauses     []pause
	events     []Event // those of the input and the trainer's restarts, in order of time
	prefill    *Prefill
	levels     []Level
	levelSteps []levelSteps // of each level
	shifts     []Shift
	rise       *Shift
	slowSteps  []SlowStep
	cycle      *Oscillation
	starvation *Starvation
	present    []int         // positions of the steps that show the run as it is now
	fleet      fleetMeans    // over the present steps
	loading    *rateOverTime // engines that load an adapter
}

// measure is the first stage: levels, slow steps, cycles and starvation.
func measure(in Input, h history) measurements {
	m := measurements{history: h, in: in, events: withRestarts(&h, in.Events), levels: []Level{},
		pauses: pausesOf(&in), recorded: h.all, loading: loading(in.Loads)}
	if in.recorded != nil {
		m.recorded = newHistory(near(in.recorded, h.all[0].no), m.pauses).all
	}
	if first := &h.all[0]; first.no == 0 {
		m.prefill = &Prefill{WaitSec: first.prefill, ReadyDepth: first.view().ReadyDepth}
	}
	// A series too short for the detector is one level; starvation is measured all the same.
	found, _ := changepoint.Detect(h.walls(), changepoint.Options{MinEffect: in.MinEffect, Refine: true})
	m.levelSteps = h.splitLevels(found)
	for i := range m.levelSteps {
		s := &m.levelSteps[i]
		if h.cycleIn(*s, in.MinEffect) != nil { // its long steps belong to it as its short ones do
			s.usual = positions(s.from, s.to)
		}
	}
	for _, s := range m.levelSteps {
		m.levels = append(m.levels, h.levelOf(s))
	}
	m.shifts = h.shiftsOf(found, m.levelSteps, m.events)
	m.rise = h.riseOf(m.shifts, m.levelSteps)
	m.slowSteps = h.slowStepsOf(found, m.levelSteps)
	last := m.levelSteps[len(m.levelSteps)-1]
	if m.cycle = h.cycleIn(last, in.MinEffect); m.cycle != nil {
		since := h.steps[last.from].no
		m.slowSteps = slices.DeleteFunc(m.slowSteps, func(s SlowStep) bool { return s.Step >= since })
	}
	m.starvation = h.lastStarvation(max(3, 2*m.setDepth()))
	m.present = h.presentSteps(last, m.starvation, m.cycle)
	m.fleet = h.fleetOver(m.present)
	return m
}

// loading is how many engines loaded an adapter, over time.
func loading(loads []AdapterLoad) *rateOverTime {
	stretches := make([]stretch, len(loads))
	for i, load := range loads {
		stretches[i] = stretch{load.At.Add(-seconds(load.Sec)), load.At, 1}
	}
	return integrated(stretches)
}

// near is the records that are looked at with those from a step on: as many as are ever looked at, of those that
// are not much older.
func near(records []rollout.StepRecord, from rollout.Step) []rollout.StepRecord {
	const before = lastSteps / 4
	return slices.DeleteFunc(slices.Clone(records), func(r rollout.StepRecord) bool {
		return r.Step < from-before || r.Step >= from-before+lastSteps
	})
}

// cycleIn is how the step time repeats itself within a level; nil when it does not.
func (h *history) cycleIn(level levelSteps, minEffect float64) *Oscillation {
	c, ok := changepoint.Oscillates(h.walls()[level.from:level.to], changepoint.Options{MinEffect: minEffect})
	if !ok {
		return nil
	}
	return &Oscillation{Period: c.Period, LowSec: c.Low, HighSec: c.High, MeanSec: c.Mean}
}

// oftenOdd is such that one step of so many that is unlike the others is not odd any more, but part of how the run is.
const oftenOdd = 8

// presentSteps picks the steps that show the run as it is now: the usual steps of the last level, of those the starved
// ones when starvation lasts, and whole cycles when the step time oscillates.
func (h *history) presentSteps(last levelSteps, starvation *Starvation, cycle *Oscillation) []int {
	present := last.usual
	waits := starvation != nil && starvation.Until == nil
	if steps := last.to - last.from; waits && oftenOdd*(steps-len(present)) > steps {
		present = positions(last.from, last.to)
	}
	if waits {
		since, _ := slices.BinarySearchFunc(h.steps, starvation.Since, func(s step, no rollout.Step) int {
			return int(s.no - no)
		})
		if later := slices.DeleteFunc(slices.Clone(present), func(i int) bool { return i < since }); len(later) > 0 {
			present = later
		} else {
			present = positions(since, last.to)
		}
	}
	if cycle != nil && len(present) >= cycle.Period {
		present = present[len(present)%cycle.Period:]
	}
	return present
}

// withRestarts adds the trainer's restarts, which the records show by their generation.
func withRestarts(h *history, events []Event) []Event {
	out := slices.Clone(events)
	for i := 1; i < len(h.all); i++ {
		before, s := h.all[i-1].rec.Generation, &h.all[i]
		if s.rec.Generation > before && before > 0 {
			out = append(out, Event{s.view().FirstAskedAt, EventTrainer, "another trainer process took over"})
		}
	}
	slices.SortStableFunc(out, func(a, b Event) int { return a.At.Compare(b.At) })
	return out
}
