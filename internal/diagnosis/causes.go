package diagnosis

import (
	"fmt"

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
	what   string // "jump" or "wait"
	before []int  // empty: there is no before
	after  []int
}

// effectOf is the rise to the present level, or else the present wait.
func (q *inquiry) effectOf(r *Report) effect {
	l := &q.ledger
	if rise := r.Rise; rise != nil {
		return effect{rise.DeltaSec, "jump", q.levels[riseBase(r.Shifts)].usual, q.levels[len(q.levels)-1].usual}
	}
	if q.starving() {
		var before []int
		for i := range l.steps {
			if l.steps[i].no < q.starve.Since {
				before = append(before, i)
			}
		}
		return effect{l.mean(q.now, (*step).wait), "wait", before, q.now}
	}
	return effect{}
}

// causes decides every candidate. A healthy run has nothing to explain and gets none.
func (q *inquiry) causes(r *Report) []Cause {
	e := q.effectOf(r)
	if e.sec <= 0 {
		return append([]Cause{}, q.coldEngines()...)
	}
	out := []Cause{}
	for _, decide := range []func(*Report, effect) (Cause, bool){
		q.configChange, q.ownPhases, q.throughput, q.latencyBound, q.workers, q.prefillDrain, q.fewerEngines, q.longerGames,
		q.otherRuns, q.drops, q.throttle, q.staleWait, q.straggler, q.environment, q.adapterLoads, q.refLogprobs, q.checkpoints,
	} {
		if c, ok := decide(r, e); ok {
			out = append(out, c)
		}
	}
	return append(q.coldEngines(), out...)
}

// butFor is by how much a step would be shorter, by the model, if a batch took the fleet only p seconds.
func (q *inquiry) butFor(p float64) float64 {
	reg := q.regime
	if reg.P == nil || reg.LatencyPD == nil {
		return 0
	}
	rest := max(reg.C.Sec, reg.LatencyPD.Sec)
	return max(0, max(rest, reg.P.Sec)-max(rest, p))
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

// configChange comes first: what somebody did at the time of the jump.
func (q *inquiry) configChange(r *Report, e effect) (Cause, bool) {
	if e.what != "jump" {
		return Cause{}, false
	}
	for _, ev := range r.Rise.Events {
		if ev.Kind == EventConfig || ev.Kind == EventTrainer {
			return Cause{CauseConfig, Possible, fmt.Sprintf("%q was done within a step of the jump", ev.Text), Measured}, true
		}
	}
	return Cause{CauseConfig, Excluded, "nothing was changed within a step of the jump", Measured}, true
}

func (q *inquiry) throughput(_ *Report, _ effect) (Cause, bool) {
	reg := q.regime
	if reg.P == nil {
		return Cause{CauseThroughput, Undecided, "the fleet's capacity is not known", Measured}, true
	}
	text := fmt.Sprintf("the fleet needs %s for a batch, the trainer %s", units.Seconds(reg.P.Sec), units.Seconds(reg.C.Sec))
	switch {
	case reg.Kind == CapacityBound && reg.Resource == EngineSlots:
		return Cause{CauseThroughput, IsCause, text, Measured}, true
	case reg.Kind == MixedRegime || reg.Kind == NoRegime:
		return Cause{CauseThroughput, Possible, text, reg.P.Basis}, true
	}
	return Cause{CauseThroughput, Excluded, text + fmt.Sprintf("; %s of its slots are in use", units.Percent(q.account.share)), reg.P.Basis}, true
}

func (q *inquiry) latencyBound(_ *Report, _ effect) (Cause, bool) {
	reg := q.regime
	if reg.LatencyPD == nil {
		return Cause{CauseLatency, Undecided, "the groups' durations are not known", Measured}, true
	}
	text := fmt.Sprintf("a batch takes %s; with %s outstanding one is ready every %s", units.Seconds(reg.R.Sec), units.Number(reg.Depth), units.Seconds(reg.LatencyPD.Sec))
	switch {
	case reg.Kind == LatencyBound:
		return Cause{CauseLatency, IsCause, text, Measured}, true
	case reg.Kind == MixedRegime || q.explains(reg.LatencyPD):
		return Cause{CauseLatency, Possible, text, Measured}, true
	}
	return Cause{CauseLatency, Excluded, text, Measured}, true
}

func (q *inquiry) workers(_ *Report, _ effect) (Cause, bool) {
	if q.regime.Resource != WorkerSlots {
		return Cause{}, false
	}
	return Cause{CauseWorkers, IsCause,
		fmt.Sprintf("groups stood %s launched and not started while engines had free slots", units.Seconds(q.startGap())), Measured}, true
}

func (q *inquiry) prefillDrain(_ *Report, _ effect) (Cause, bool) {
	from, to, falling := q.fallingDepth()
	if !falling || q.regime.Kind != CapacityBound {
		return Cause{}, false
	}
	return Cause{CausePrefill, Contributes,
		fmt.Sprintf("%.1f batches ready at step %d hid the shortage until step %d", from.ready, from.no, to.no), Measured}, true
}
