package diagnosis

import (
	"fmt"

	"github.com/millrace/millrace/internal/kit/units"
)

// gapShare is the least share of a step that groups wait unstarted, beside free slots, for workers to be the cause.
const gapShare = 0.20

// regime is the limit of the step time, with its evidence. It is never changed once it is returned.
type regime struct {
	Regime
	slots    slotUse
	memory   kvUse
	adapters adapterUse
	latency  groupLatency
	speed    engineSpeed
	missing  []string // evidence that would be needed to say more
}

// regimeOf is the second stage: it measures what limits the step time.
func regimeOf(m *measurements) regime {
	stepSec := m.mean(m.present, (*step).seconds)
	memory := m.kvOver(m.present)
	slots := slotUseOf(m, stepSec, memory.short())
	reg := regime{slots: slots, memory: memory, latency: groupLatencyOf(m, slots), speed: speedOf(m, slots),
		adapters: m.adaptersOver(m.present)}
	reg.StepSec = stepSec
	reg.ComputeSec = m.mean(m.present, (*step).compute)
	reg.Depth = m.depth()
	if m.hasGroups() {
		reg.LatencySec = m.mean(m.present, reg.latency.ofBatch)
		reg.Load = reg.speed.report()
	}
	reg.Kind, reg.Resource = reg.choose(m)
	reg.Evidence = reg.evidence(m)
	reg.missing = reg.missingEvidence(m)
	return reg
}

// choose says what limits the step time.
func (reg *regime) choose(m *measurements) (RegimeKind, Resource) {
	switch full := reg.slots.full(); {
	case reg.computeBound():
		return ComputeBound, ""
	case !reg.known(m):
		return NoRegime, ""
	case full && reg.memory.short():
		return CapacityBound, EngineMemory
	case reg.shortOfAdapters(m):
		return CapacityBound, AdapterSlots
	case full:
		return CapacityBound, EngineSlots
	case !reg.latency.prompt && m.startGap() >= gapShare*reg.StepSec:
		return CapacityBound, WorkerSlots
	case !reg.speed.Decided():
		return UndecidedRegime, ""
	case reg.speed.IsSaturated():
		return CapacityBound, EngineSpeed
	}
	return LatencyBound, ""
}

// known reports whether the records tell what limits a step.
func (reg *regime) known(m *measurements) bool {
	return len(m.present) > 1 && m.hasGroups() && m.fleet.known
}

func (reg *regime) computeBound() bool { return 1-reg.ComputeSec/reg.StepSec < minWaitShare }

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
		say("a batch's worth of groups arrived every %s", units.Seconds(interval))
	}
	if reg.slots.queueing() && reg.slots.share < queueingSlots && reg.Resource != AdapterSlots {
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
