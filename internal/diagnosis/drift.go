package diagnosis

import (
	"math"

	"github.com/millrace/millrace/internal/diagnosis/changepoint"

	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// driftOf is how the step time drifts up to the present, or else the trainer's compute; nil: neither does.
func driftOf(m *measurements) *Drift {
	walls, compute := m.trend((*step).seconds), m.trend((*step).compute)
	switch {
	case walls != nil:
		return m.describeDrift(walls, DriftOfStep)
	case compute != nil:
		return m.describeDrift(compute, DriftOfCompute)
	}
	return nil
}

// trend is the drift of something of each step that lasts; nil: none does.
func (h *history) trend(of func(*step) float64) *changepoint.Drift {
	found, err := changepoint.Detect(h.values(positions(0, len(h.steps)), of), changepoint.Options{})
	if n := len(found.Drifts); err == nil && n > 0 && found.Drifts[n-1].To == len(h.steps) {
		return &found.Drifts[n-1]
	}
	return nil
}

func (h *history) describeDrift(d *changepoint.Drift, of DriftOf) *Drift {
	return &Drift{
		Of: of, From: h.steps[d.From].no, To: h.steps[d.To-1].no, PerStep: d.PerValue, LowPer: d.Low, HighPer: d.High,
		FromSec: d.Start, ToSec: d.End, First: h.grownOver(d),
	}
}

// grownOver is the phase that moved most in the drift's direction, from its first quarter to its last.
func (h *history) grownOver(d *changepoint.Drift) steprecord.Phase {
	quarter := max(1, (d.To-d.From)/4)
	before, after := positions(d.From, d.From+quarter), positions(d.To-quarter, d.To)
	first, most := steprecord.PhaseOther, math.Inf(-1)
	for p, phase := range steprecord.Phases() {
		moved := h.mean(after, phaseSec(p)) - h.mean(before, phaseSec(p))
		if d.PerValue < 0 {
			moved = -moved
		}
		if moved > most {
			first, most = phase, moved
		}
	}
	return first
}
