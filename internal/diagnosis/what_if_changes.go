package diagnosis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/units"
)

// whatIfChange is one thing done differently.
type whatIfChange struct {
	name    string
	note    string
	command string // that makes it; empty when none does
	staler  bool   // trains on older games than the run allows
	apply   func(replayModel) replayModel
	// simulate is the same change for a simulator; none: the change is one that it does not know.
	simulate SimulatedChange
}

// whatIfChanges lists what is worth replaying differently for this run.
func whatIfChanges(m *measurements, reg *regime) []whatIfChange {
	out := slices.Concat(capacityChanges(m, reg), depthChanges(m, reg))
	if refSec := m.mean(m.present, phaseSec(refAt)); refSec >= minWaitShare*reg.C.Sec {
		out = append(out, refLogprobsInRollouts(refSec))
	}
	if m.mean(m.present, (*step).lateTail) >= minWaitShare*reg.StepSec {
		out = append(out, whatIfChange{
			name: "no group slower than the p90", note: "a straggler's deadline or a shorter horizon", apply: capped})
	}
	return out
}

// capacityChanges are more engines, or more workers where it is those that the run is short of.
func capacityChanges(m *measurements, reg *regime) []whatIfChange {
	n := max(1, int(math.Round(m.fleet.engines)))
	name := func(to int) string { return fmt.Sprintf("engines %d -> %d", n, to) }
	if reg.Resource == WorkerSlots {
		return []whatIfChange{
			{name: "room for games at workers x2", note: "as many workers again", command: "millrace worker", apply: scaled(2)},
			{name: name(2 * n), apply: unchanged, simulate: SimulatedChange{Engines: 2 * n}},
		}
	}
	const add = "millrace engine add URL"
	out := []whatIfChange{{name: name(2 * n), command: add, apply: scaled(2), simulate: SimulatedChange{Engines: 2 * n}}}
	enough := int(math.Ceil(1.1 * m.fleet.engines * reg.P.Sec / reg.C.Sec))
	if reg.Kind == CapacityBound && enough > n && enough != 2*n {
		out = append(out, whatIfChange{name: name(enough), note: "sized with 10 % to spare", command: add,
			apply: scaled(float64(enough) / m.fleet.engines), simulate: SimulatedChange{Engines: enough}})
	}
	return out
}

// depthChanges tries one and two batches more and, if latency asks for it, as many as hide it. Where a bound admits
// fewer than the depth asks for, it is the bound that is raised, and more depth alone is shown to do nothing.
func depthChanges(m *measurements, reg *regime) []whatIfChange {
	set := m.setDepth()
	depth := min(set, m.stalenessLimit(), m.bytesLimit())
	tries := []int{depth + 1, depth + 2}
	if enough := int(math.Ceil(reg.R.Sec / reg.C.Sec)); reg.Kind == LatencyBound && enough > depth+2 {
		tries = append(tries, enough)
	}
	var out []whatIfChange
	if depth < set {
		name := fmt.Sprintf("depth %d -> %d", set, set+1)
		out = append(out, whatIfChange{name: name, note: bindingLimit(m), apply: unchanged,
			simulate: SimulatedChange{Depth: set + 1}})
	}
	for _, d := range tries {
		out = append(out, outstandingChange(m, d))
	}
	return out
}

// outstandingChange raises whatever keeps the run from having d batches outstanding. It is named for the depth, if
// that has to be raised, or else for the bound; the rest are its needs.
func outstandingChange(m *measurements, d int) whatIfChange {
	set, fitting, buffer := m.setDepth(), m.bytesLimit(), m.in.Spec.Buffer
	c := whatIfChange{apply: admitting(d, deeper(max(0, d-min(set, fitting))))}
	var names, settings []string
	if d > set {
		c.simulate.Depth = d
		names = append(names, fmt.Sprintf("depth %d -> %d", set, d))
		settings = append(settings, fmt.Sprintf("buffer.depth=%d", d))
	}
	if d > m.stalenessLimit() {
		c.staler, c.simulate.MaxStaleness = true, int64(d)
		if len(names) > 0 {
			c.note = fmt.Sprintf("needs max_staleness %d, is %d", d, buffer.MaxStaleness)
		}
		names = append(names, fmt.Sprintf("max_staleness %d -> %d", buffer.MaxStaleness, d))
		settings = append(settings, fmt.Sprintf("buffer.max_staleness=%d", d))
	}
	if d > fitting {
		c.simulate = SimulatedChange{} // it does not know how large trajectories are
		now, mib := buffer.MaxBytes, int64(1<<20)
		enough := (now*int64(d)/int64(max(1, fitting)) + mib - 1) / mib
		if len(names) > 0 {
			needs := fmt.Sprintf(", needs max_bytes %s, is %s", units.Bytes(enough*mib), units.Bytes(now))
			c.note = strings.TrimPrefix(c.note+needs, ", ")
		}
		names = append(names, fmt.Sprintf("max_bytes %s -> %s", units.Bytes(now), units.Bytes(enough*mib)))
		settings = append(settings, fmt.Sprintf("buffer.max_bytes=%dMiB", enough))
	}
	c.name = names[0]
	c.command = fmt.Sprintf("millrace run set %s %s", m.in.Spec.Name, strings.Join(settings, " "))
	return c
}

// bindingLimit says which bound admits fewer batches than the depth asks for.
func bindingLimit(m *measurements) string {
	if m.bytesLimit() < m.stalenessLimit() {
		return "max_bytes has no room for more"
	}
	return fmt.Sprintf("max_staleness %d admits no more", m.in.Spec.Buffer.MaxStaleness)
}

// refWorkShare is what computing reference log-probabilities during rollouts is taken to add to their work.
const refWorkShare = 0.10

// refLogprobsInRollouts takes a phase of savedSec from every step, and makes the games longer for it.
func refLogprobsInRollouts(savedSec float64) whatIfChange {
	const name, note = "ref log-probs in rollouts", "assuming 10 % more work"
	return whatIfChange{name: name, note: note, apply: func(p replayModel) replayModel {
		p = scaled(1 / (1 + refWorkShare))(p)
		p.latency, p.compute = slices.Clone(p.latency), slices.Clone(p.compute)
		for i := range p.latency {
			p.latency[i] *= 1 + refWorkShare
		}
		for k := range p.compute {
			p.compute[k] = max(0, p.compute[k]-savedSec)
		}
		return p
	}}
}

func unchanged(p replayModel) replayModel { return p }

func scaled(factor float64) func(replayModel) replayModel {
	return func(p replayModel) replayModel {
		p.capacity = slices.Clone(p.capacity)
		for i := range p.capacity {
			p.capacity[i] *= factor
		}
		return p
	}
}

// admitting lets d batches be outstanding at least, and then makes a change.
func admitting(d int, then func(replayModel) replayModel) func(replayModel) replayModel {
	return func(p replayModel) replayModel {
		p.stalenessLimit = max(p.stalenessLimit, d)
		return then(p)
	}
}

// deeper keeps more batches outstanding from the start, and waits for them first if the run did.
func deeper(more int) func(replayModel) replayModel {
	return func(p replayModel) replayModel {
		if more > 0 && p.first >= p.depth[0]*p.take[0] {
			p.first += more * p.take[0]
		}
		p.depth = slices.Clone(p.depth)
		for k := range p.depth {
			p.depth[k] += more
		}
		return p
	}
}

func capped(p replayModel) replayModel {
	p.latency = capAt(p.latency, quantile(p.latency[p.groupLoop:], 0.9))
	p.work = capAt(p.work, quantile(p.work[p.groupLoop:], 0.9))
	return p
}

func capAt(values []float64, limit float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = min(v, limit)
	}
	return out
}
