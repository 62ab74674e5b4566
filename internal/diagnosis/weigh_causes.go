package diagnosis

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/units"
)

const (
	// mostOf is the share of an effect from which on a candidate is its cause.
	mostOf = 0.5
	// someOf is the share below which a candidate is excluded.
	someOf = 0.1
	// moved is the relative change of a measure that is more than noise.
	moved = 0.10
)

// effect is what is to be explained: a jump between two stretches of steps, or, when the run is
// starved from the first step on, the wait itself.
type effect struct {
	sec    float64
	jump   *Shift // nil: it is the wait
	before []int  // empty: there is no before
	after  []int
}

// effectOf is the rise to the present level, or else the present wait.
func effectOf(m *measurements) effect {
	if m.rise != nil {
		base, last := m.levelSteps[riseBase(m.shifts)], m.levelSteps[len(m.levelSteps)-1]
		return effect{m.rise.DeltaSec, m.rise, base.usual, last.usual}
	}
	if m.starving() {
		var before []int
		for i := range m.steps {
			if m.steps[i].no < m.starvation.Since {
				before = append(before, i)
			}
		}
		return effect{m.mean(m.present, (*step).wait), nil, before, m.present}
	}
	return effect{}
}

// candidate decides about one cause; false when the question does not arise.
type candidate func(*measurements, *regime, effect) (Cause, bool)

// causesOf is the fourth stage: it decides every candidate. A healthy run has nothing to explain and gets none.
func causesOf(m *measurements, reg *regime, _ *predictions) []Cause {
	out := append([]Cause{}, coldEngines(m)...)
	e := effectOf(m)
	if e.sec <= 0 {
		return out
	}
	for _, decide := range []candidate{
		configChange, ownPhases, throughput, latencyBound, tooFewWorkers, prefillDrain, fewerEngines, longerGames,
		otherRuns, drops, throttle, staleWait, straggler, environment, adapterLoads, refLogprobs, checkpoints,
	} {
		if c, ok := decide(m, reg, e); ok {
			out = append(out, c)
		}
	}
	return out
}

// weigh decides by the candidate's share of the effect.
func (e effect) weigh(sec float64) Decision {
	switch share := sec / e.sec; {
	case share >= mostOf:
		return IsCause
	case share >= someOf:
		return Contributes
	}
	return Excluded
}

// decided is a cause without the numbers of a but-for test.
func decided(name CauseName, d Decision, text string, b Basis) Cause {
	return Cause{Name: name, Decision: d, Text: text, Basis: b}
}

// proven reports whether a candidate was found to be a cause.
func proven(causes []Cause, name CauseName) bool {
	return slices.ContainsFunc(causes, func(c Cause) bool { return c.Name == name && c.Decision == IsCause })
}

// configChange comes first: what somebody did at the time of the jump.
func configChange(_ *measurements, _ *regime, e effect) (Cause, bool) {
	if e.jump == nil {
		return Cause{}, false
	}
	for _, ev := range e.jump.Events {
		if ev.Kind == EventConfig || ev.Kind == EventTrainer {
			text := fmt.Sprintf("%q was done within a step of the jump", ev.Text)
			return decided(CauseConfig, Possible, text, Measured), true
		}
	}
	return decided(CauseConfig, Excluded, "nothing was changed within a step of the jump", Measured), true
}

// throughput and latencyBound are the terms of the regime themselves.
func throughput(_ *measurements, reg *regime, _ effect) (Cause, bool) {
	if reg.P == nil {
		return decided(CauseThroughput, Undecided, "the fleet's capacity is not known", Measured), true
	}
	text := fmt.Sprintf("the fleet needs %s for a batch, the trainer %s",
		units.Seconds(reg.P.Sec), units.Seconds(reg.C.Sec))
	switch {
	case reg.Kind == CapacityBound && reg.Resource == EngineSpeed:
		text += fmt.Sprintf("; at %s requests in flight each takes x%.1f as long as alone", units.Number(reg.speed.Load),
			reg.speed.Curve.Slowdown(reg.speed.Load))
		return decided(CauseThroughput, IsCause, text, Modelled), true
	case reg.Kind == CapacityBound && reg.Resource == EngineSlots:
		return decided(CauseThroughput, IsCause, text, Measured), true
	case reg.Kind == MixedRegime || reg.Kind == NoRegime || reg.Kind == UndecidedRegime:
		return decided(CauseThroughput, Possible, text, reg.P.Basis), true
	}
	text += fmt.Sprintf("; %s of its slots are in use", units.Percent(reg.slots.share))
	return decided(CauseThroughput, Excluded, text, reg.P.Basis), true
}

func latencyBound(_ *measurements, reg *regime, _ effect) (Cause, bool) {
	if reg.LatencyPD == nil {
		return decided(CauseLatency, Undecided, "the groups' durations are not known", Measured), true
	}
	text := fmt.Sprintf("a batch takes %s; with %s outstanding one is ready every %s",
		units.Seconds(reg.R.Sec), units.Number(reg.Depth), units.Seconds(reg.LatencyPD.Sec))
	switch {
	case reg.Kind == LatencyBound:
		return decided(CauseLatency, IsCause, text, Measured), true
	case reg.Kind == CapacityBound && reg.Resource == EngineSpeed && reg.speed.RiseHigh < someOf:
		return decided(CauseLatency, Excluded, text+"; most of it is the engines' load", Measured), true
	case reg.Kind == MixedRegime || reg.Kind == UndecidedRegime || reg.explains(reg.LatencyPD):
		return decided(CauseLatency, Possible, text, Measured), true
	}
	return decided(CauseLatency, Excluded, text, Measured), true
}

func tooFewWorkers(m *measurements, reg *regime, _ effect) (Cause, bool) {
	if reg.Resource != WorkerSlots {
		return Cause{}, false
	}
	text := fmt.Sprintf("groups stood %s launched and not started while engines had free slots",
		units.Seconds(m.startGap()))
	return decided(CauseWorkers, IsCause, text, Measured), true
}
