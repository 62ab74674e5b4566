package diagnosis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/units"
)

// changes lists what is worth replaying differently for this run.
func (q *inquiry) changes() []change {
	var out []change
	out = append(out, q.capacityChanges()...)
	out = append(out, q.depthChanges()...)
	if q.ledger.mean(q.now, func(s *step) float64 { return s.phases[refAt] }) >= minWaitShare*q.regime.C.Sec {
		out = append(out, q.refLogprobsInRollouts())
	}
	if q.ledger.mean(q.now, (*step).lateTail) >= minWaitShare*q.regime.StepSec {
		out = append(out, change{name: "no group slower than the p90", note: "a straggler's deadline or a shorter horizon", apply: capped})
	}
	return out
}

func (q *inquiry) capacityChanges() []change {
	if q.regime.Resource == WorkerSlots {
		return []change{
			{name: "room for games at workers x2", note: "as many workers again", command: "millrace worker", apply: scaled(2)},
			{name: q.engineName(2 * q.engines()), apply: func(p plant) plant { return p }},
		}
	}
	n := q.engines()
	const add = "millrace engine add URL"
	out := []change{{name: q.engineName(2 * n), command: add, apply: scaled(2)}}
	enough := int(math.Ceil(1.1 * q.fleet.engines * q.regime.P.Sec / q.regime.C.Sec))
	if q.regime.Kind == CapacityBound && enough > n && enough != 2*n {
		out = append(out, change{
			name: q.engineName(enough), note: "sized with 10 % to spare", command: add, apply: scaled(float64(enough) / q.fleet.engines)})
	}
	return out
}

func (q *inquiry) engines() int { return max(1, int(math.Round(q.fleet.engines))) }

func (q *inquiry) engineName(to int) string { return fmt.Sprintf("engines %d -> %d", q.engines(), to) }

// depthChanges tries one and two batches more and, if latency asks for it, as many as hide it. Where a bound admits
// fewer than the depth asks for, it is the bound that is raised, and more depth alone is shown to do nothing.
func (q *inquiry) depthChanges() []change {
	set := q.setDepth()
	depth := min(set, q.admitted(), q.fitted())
	tries := []int{depth + 1, depth + 2}
	if enough := int(math.Ceil(q.regime.R.Sec / q.regime.C.Sec)); q.regime.Kind == LatencyBound && enough > depth+2 {
		tries = append(tries, enough)
	}
	var out []change
	if depth < set {
		out = append(out, change{name: fmt.Sprintf("depth %d -> %d", set, set+1), note: q.boundText(), apply: func(p plant) plant { return p }})
	}
	for _, d := range tries {
		out = append(out, q.outstandingChange(d))
	}
	return out
}

// outstandingChange raises whatever keeps the run from having d batches outstanding. It is named for the depth, if
// that has to be raised, or else for the bound; the rest are its needs.
func (q *inquiry) outstandingChange(d int) change {
	c := change{apply: admitting(d, deeper(max(0, d-min(q.setDepth(), q.fitted()))))}
	var names, settings []string
	if set := q.setDepth(); d > set {
		names = append(names, fmt.Sprintf("depth %d -> %d", set, d))
		settings = append(settings, fmt.Sprintf("buffer.depth=%d", d))
	}
	if d > q.admitted() {
		c.staler = true
		stale := q.in.Spec.Buffer.MaxStaleness
		if len(names) > 0 {
			c.note = fmt.Sprintf("needs max_staleness %d, is %d", d, stale)
		}
		names = append(names, fmt.Sprintf("max_staleness %d -> %d", stale, d))
		settings = append(settings, fmt.Sprintf("buffer.max_staleness=%d", d))
	}
	if fitted := q.fitted(); d > fitted {
		now, mib := q.in.Spec.Buffer.MaxBytes, int64(1<<20)
		enough := (now*int64(d)/int64(max(1, fitted)) + mib - 1) / mib
		if len(names) > 0 {
			c.note = strings.TrimPrefix(c.note+fmt.Sprintf(", needs max_bytes %s, is %s", units.Bytes(enough*mib), units.Bytes(now)), ", ")
		}
		names = append(names, fmt.Sprintf("max_bytes %s -> %s", units.Bytes(now), units.Bytes(enough*mib)))
		settings = append(settings, fmt.Sprintf("buffer.max_bytes=%dMiB", enough))
	}
	c.name = names[0]
	c.command = fmt.Sprintf("millrace run set %s %s", q.in.Spec.Name, strings.Join(settings, " "))
	return c
}

// boundText says which bound admits fewer batches than the depth asks for.
func (q *inquiry) boundText() string {
	if q.fitted() < q.admitted() {
		return "max_bytes has no room for more"
	}
	return fmt.Sprintf("max_staleness %d admits no more", q.in.Spec.Buffer.MaxStaleness)
}

// refWorkShare is what computing reference log-probabilities during rollouts is taken to add to their work.
const refWorkShare = 0.10

func (q *inquiry) refLogprobsInRollouts() change {
	const name, note = "ref log-probs in rollouts", "assuming 10 % more work"
	return change{name: name, note: note, apply: func(p plant) plant {
		p = scaled(1 / (1 + refWorkShare))(p)
		p.latency, p.compute = slices.Clone(p.latency), slices.Clone(p.compute)
		for i := range p.latency {
			p.latency[i] *= 1 + refWorkShare
		}
		saved := q.ledger.mean(q.now, func(s *step) float64 { return s.phases[refAt] })
		for k := range p.compute {
			p.compute[k] = max(0, p.compute[k]-saved)
		}
		return p
	}}
}

func scaled(factor float64) func(plant) plant {
	return func(p plant) plant {
		p.capacity = slices.Clone(p.capacity)
		for i := range p.capacity {
			p.capacity[i] *= factor
		}
		return p
	}
}

// admitting lets d batches be outstanding at least, and then makes a change.
func admitting(d int, then func(plant) plant) func(plant) plant {
	return func(p plant) plant {
		p.admitted = max(p.admitted, d)
		return then(p)
	}
}

// deeper keeps more batches outstanding from the start, and waits for them first if the run did.
func deeper(more int) func(plant) plant {
	return func(p plant) plant {
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

func capped(p plant) plant {
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

// PhaseText is how a phase is called in a sentence.
func PhaseText(p rollout.Phase) string {
	switch p {
	case rollout.PhaseWait:
		return "waiting for batches"
	case rollout.PhaseLoad:
		return "loading batches"
	case rollout.PhaseRefLogprobs:
		return "reference log-probs"
	case rollout.PhaseTrain:
		return "training"
	case rollout.PhasePublish:
		return "publishing weights"
	case rollout.PhaseCheckpoint:
		return "checkpoints"
	}
	return "other work of the trainer"
}
