package diagnosis

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/changepoint"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// measurements are what the records of at least one step show, before any conclusion. They are never changed.
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
		m.recorded = newHistory(near(in.recorded, h.all[0].no), m.pauses, in.Spec.Steps).all
	}
	if first := &h.all[0]; first.no == 0 {
		m.prefill = &Prefill{WaitSec: first.prefill, ReadyDepth: first.view().ReadyDepth}
	}
	// A series too short for the detector is one level; starvation is measured all the same.
	found := m.findLevels()
	for i := range m.levelSteps {
		s := &m.levelSteps[i]
		if h.cycleIn(*s) != nil { // its long steps belong to it as its short ones do
			s.usual = positions(s.from, s.to)
		}
	}
	for _, s := range m.levelSteps {
		m.levels = append(m.levels, h.levelOf(s))
	}
	m.shifts = h.shiftsOf(found, m.levelSteps, m.events)
	m.look()
	return m
}

// findLevels finds the levels of the step time, and those that only what steps are made of shows. The end of a run,
// where nothing is launched any more, is no level.
func (m *measurements) findLevels() changepoint.Result {
	n := len(m.steps)
	for n > 0 && m.steps[n-1].ending {
		n--
	}
	options := changepoint.Options{Refine: true, Period: m.mostOutstanding()}
	find := func() changepoint.Result {
		found, _ := changepoint.Detect(m.walls()[:n], options)
		if last := len(found.Segments) - 1; last >= 0 {
			found.Segments[last].To = len(m.steps)
		}
		m.levelSteps = m.splitLevels(found)
		return found
	}
	found := find()
	if at, changes := changedWithin(m, m.levelSteps[len(m.levelSteps)-1]); changes {
		options.Known = []int{at}
		found = find()
	}
	return found
}

// mostOutstanding is the most batches that the run had outstanding: steps that wait may repeat after as many. It is 1
// for a run that does not wait, whose buffer shows in none of its steps.
func (m *measurements) mostOutstanding() int {
	depth, wall, wait := 1, 0.0, 0.0
	for i := range m.steps {
		depth = max(depth, m.steps[i].view().Depth)
		wall, wait = wall+m.steps[i].wall, wait+m.steps[i].phases[waitAt]
	}
	if wait < minWaitShare*wall {
		return 1
	}
	return max(1, min(depth, m.stalenessLimit()))
}

// untilEndOf restricts the measurements to the time up to a level's end.
func (m *measurements) untilEndOf(level int) measurements {
	then := *m
	last := m.levels[level].To
	until := func(steps []step) []step {
		return slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.no > last })
	}
	then.all, then.steps, then.recorded = until(m.all), until(m.steps), until(m.recorded)
	then.levels, then.levelSteps, then.shifts = m.levels[:level+1], m.levelSteps[:level+1], m.shifts[:level]
	then.look()
	return then
}

// look finds how the run is at the end of what is measured.
func (m *measurements) look() {
	h := &m.history
	m.rise = h.riseOf(m.shifts, m.levelSteps)
	last := m.levelSteps[len(m.levelSteps)-1]
	m.cycle = h.cycleIn(last)
	m.starvation = h.lastStarvation(max(3, 2*m.setDepth()))
	m.present = h.presentSteps(last, m.starvation, m.cycle)
	m.fleet = h.fleetOver(m.present)
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
func near(records []steprecord.StepRecord, from rollout.Step) []steprecord.StepRecord {
	const before = lastSteps / 4
	return slices.DeleteFunc(slices.Clone(records), func(r steprecord.StepRecord) bool {
		return r.Step < from-before || r.Step >= from-before+lastSteps
	})
}

// cycleIn is how the step time repeats itself within a level; nil when it does not.
func (h *history) cycleIn(level levelSteps) *Oscillation {
	c, ok := changepoint.Oscillates(h.walls()[level.from:level.to], changepoint.Options{})
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

// levelOf sums up the steps of a level.
func (h *history) levelOf(s levelSteps) Level {
	level := Level{
		From:     h.steps[s.from].no,
		To:       h.steps[s.to-1].no,
		Steps:    s.to - s.from,
		StepSec:  h.mean(s.usual, (*step).seconds),
		PhaseSec: map[steprecord.Phase]float64{},
		Wait:     h.waitParts(s.usual),
		ReadyDepth: h.mean(s.usual, func(s *step) float64 {
			return s.view().ReadyDepth
		}),
	}
	for i, phase := range steprecord.Phases() {
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
			Events:    h.eventsNear(c.At, events),
		}
		shifts = append(shifts, h.attributed(shift, before, after))
	}
	return shifts
}

// riseOf joins consecutive shifts to slower steps, up to the present, into one jump at the largest shift.
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
	return &rise
}

// riseBase is the level before the last run of shifts towards slower steps; without such shifts, the last level.
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
	for i, phase := range steprecord.Phases() {
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
