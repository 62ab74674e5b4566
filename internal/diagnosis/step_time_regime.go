package diagnosis

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/kit/units"
)

const (
	// closeTo is how far a term may be from the observed step and still explain it.
	closeTo = 0.15
	// disagree is the relative difference between arrivals and P that is reported.
	disagree = 0.20
	// gapShare is the least share of a step that groups wait unstarted, beside free slots, for workers to be the cause.
	gapShare = 0.20
)

// regime is the limit of the step time, with its evidence. It is never changed once it is returned.
type regime struct {
	Regime
	slots   slotUse
	memory  kvUse
	latency groupLatency
	speed   engineSpeed
	missing []string // evidence that would be needed to say more
}

// regimeOf is the second stage: it measures C, P and R/D and says which of them is the step time.
func regimeOf(m *measurements) regime {
	stepSec := m.mean(m.present, (*step).seconds)
	memory := m.kvOver(m.present)
	slots := slotUseOf(m, stepSec, memory.short())
	reg := regime{slots: slots, memory: memory, latency: groupLatencyOf(m, slots), speed: speedOf(m, slots)}
	reg.StepSec = stepSec
	reg.C = Quantity{m.mean(m.present, (*step).compute), Measured, "step less wait"}
	reg.Depth = float64(max(1, min(m.setDepth(), m.bytesLimit())))
	if m.hasGroups() {
		reg.R, reg.LatencyPD, reg.Depth = latencyTerms(m, reg.latency, reg.C.Sec, reg.Depth)
		reg.P = reg.production(m)
		reg.Load = reg.speed.report()
		reg.Saturated = reg.saturatedStep()
	}
	reg.Kind, reg.Resource = reg.choose(m)
	if reg.Resource == WorkerSlots {
		reg.P = workersProduction(m, stepSec)
	}
	reg.Evidence = reg.evidence(m)
	reg.missing = reg.missingEvidence(m)
	return reg
}

// production is how long the fleet needs for one batch's work; nil when its slots are not known. Slots that other work
// of the fleet holds are not this run's. Full slots cost the speed that the fitted curve says.
func (reg *regime) production(m *measurements) *Quantity {
	use := reg.slots
	slots := use.mayHold()
	if slots <= 0 || !m.fleet.known {
		return nil
	}
	perBatch := m.workPerBatch()
	how := fmt.Sprintf("%s request-seconds / %s slots", units.Number(perBatch), units.Number(slots))
	if !use.full() {
		now, full := reg.speed.slowdowns(slots/max(1, m.fleet.engines) + use.others()/max(1, m.fleet.engines))
		switch {
		case !reg.speed.Decided():
			how += "; full ones may be slower"
		case full > 1.05*now:
			how += ", slower when full"
		default:
			how += ", if full slots cost no speed"
		}
		return &Quantity{perBatch / slots * full / now, Modelled, how}
	}
	return &Quantity{perBatch / slots, Measured, how}
}

// workersProduction counts capacity in games: engines have free slots, yet launched groups do not start.
func workersProduction(m *measurements, stepSec float64) *Quantity {
	games := m.mean(m.present, batchSum(gameSec))
	places := games / stepSec // Little's law: games in play
	return &Quantity{stepSec, Measured,
		fmt.Sprintf("%s game-seconds / %s games in play at the workers", units.Number(games), units.Number(places))}
}

// choose says which of the terms is the step time.
func (reg *regime) choose(m *measurements) (RegimeKind, Resource) {
	full := reg.slots.full()
	switch {
	case reg.computeBound():
		return ComputeBound, ""
	case len(m.present) < 2 || reg.P == nil || reg.R == nil:
		return NoRegime, ""
	case full && reg.explains(reg.P) && reg.memory.short():
		return CapacityBound, EngineMemory
	case full && reg.explains(reg.P):
		return CapacityBound, EngineSlots
	case !full && (reg.explains(reg.LatencyPD) || reg.saturationExplains()):
		return reg.byLoad()
	case !full && !reg.latency.prompt && m.startGap() >= gapShare*reg.StepSec && reg.LatencyPD.Sec < reg.StepSec:
		return CapacityBound, WorkerSlots
	}
	return MixedRegime, ""
}

// byLoad parts latency from saturation, where steps take as long as the games do and slots are free.
func (reg *regime) byLoad() (RegimeKind, Resource) {
	switch {
	case !reg.speed.Decided():
		return UndecidedRegime, ""
	case reg.speed.IsSaturated():
		return CapacityBound, EngineSpeed
	}
	return LatencyBound, ""
}

// saturationExplains reports whether a step is about what saturated engines make of it.
func (reg *regime) saturationExplains() bool {
	return reg.Saturated != nil && math.Abs(reg.Saturated.Sec/reg.StepSec-1) <= 2*closeTo
}

// saturatedStep is what saturated engines make of a step; nil where they are not known to be. With D batches
// outstanding the requests in flight are the same however fast the engines are. A step is then R/D of engines that do
// not slow down, stretched by the curve: its k-th power is that of P, which is all that they can do, and of what they
// do not stretch, which is the rise's share of the k-th power of R/D.
func (reg *regime) saturatedStep() *Quantity {
	s := &reg.speed
	if !s.Decided() || !s.IsSaturated() || !reg.latency.prompt || reg.P == nil || reg.LatencyPD == nil {
		return nil
	}
	k := max(1, s.Curve.Knee)
	sum := math.Pow(reg.P.Sec, k) + s.Rise*math.Pow(reg.LatencyPD.Sec, k)
	how := fmt.Sprintf("P + %s of R/D", units.Percent(s.Rise))
	if k > 1 {
		how = fmt.Sprintf("(P^%v + %s of (R/D)^%v)^(1/%v)", k, units.Percent(s.Rise), k, k)
	}
	return &Quantity{math.Pow(sum, 1/k), Modelled, how}
}

func (reg *regime) computeBound() bool { return 1-reg.C.Sec/reg.StepSec < minWaitShare }

// explains reports whether a term is about as long as a step.
func (reg *regime) explains(term *Quantity) bool {
	return math.Abs(term.Sec/reg.StepSec-1) <= closeTo
}

// missingEvidence lists the records that would decide the regime, or make it surer.
func (reg *regime) missingEvidence(m *measurements) []string {
	var missing []string
	if !m.hasGroups() {
		missing = append(missing, "group timelines in the step records")
	}
	if !m.fleet.known {
		missing = append(missing, "engine samples: without them a full fleet cannot be told from a slow game")
	}
	if !reg.computeBound() && len(m.present) < 2 {
		last := m.steps[len(m.steps)-1].no
		missing = append(missing, fmt.Sprintf(
			"a second starved step: the first may be a part of one; ask again after step %d", last+1))
	}
	return missing
}

// evidence lists the observations for the regime and against its rivals.
func (reg *regime) evidence(m *measurements) []Evidence {
	lines := []Evidence{}
	say := func(format string, args ...any) {
		lines = append(lines, Evidence{fmt.Sprintf(format, args...), Measured})
	}
	if f := m.fleet; f.known {
		sampled := ""
		if reg.slots.share-f.slotShare > 0.05 {
			sampled = fmt.Sprintf(" (%s by the engines' samples, which leave out the way there and back)",
				units.Percent(f.slotShare))
		}
		say("%s, %s of the request slots in use%s, busy %s of the time, %s requests queued",
			enginesText(f.engines), units.Percent(reg.slots.share), sampled, units.Percent(f.busyShare),
			units.Number(f.queued))
	}
	if from, to, ok := m.bufferDrain(); ok && reg.Kind == CapacityBound {
		say("batches ready at the claim fell from %.1f at step %d to %.1f at step %d", from.ready, from.no, to.ready, to.no)
	}
	if reg.Kind == ComputeBound {
		return lines
	}
	if interval, ok := m.arrivalInterval(); ok {
		check := ""
		if reg.Kind == CapacityBound && reg.Resource != EngineSpeed && math.Abs(interval/reg.P.Sec-1) > disagree {
			check = ", which P does not explain"
		}
		say("a batch's worth of groups arrived every %s%s", units.Seconds(interval), check)
	}
	if reg.slots.queueing() && reg.slots.share < queueingSlots {
		say("requests stand in line beside free slots: their adapter is not loaded there, or a limit is lower than told")
	}
	if c := m.cycle; c != nil {
		say("step times repeat every %d steps, between %s and %s",
			c.Period, units.Seconds(c.LowSec), units.Seconds(c.HighSec))
	}
	lines = reg.sayLoad(lines)
	if reg.memory.short() {
		say("%s", reg.memory.text())
	}
	if reg.Resource == WorkerSlots {
		say("groups stood %s launched and not started, beside free slots", units.Seconds(m.startGap()))
	}
	return lines
}
