package diagnosis

import (
	"math"

	"github.com/millrace/millrace/internal/diagnosis/changepoint"
	"github.com/millrace/millrace/internal/rollout"
)

// farthest is how many steps ahead a drift is followed: beyond, nothing goes on as it does.
const farthest = 10_000

// driftOf is how the step time drifts up to the present, or else the trainer's compute, or the work of a batch that the
// step time does not show yet; nil: none does.
func driftOf(m *measurements, reg *regime) *Drift {
	walls := m.trend(m.walls())
	compute := m.trend(m.values((*step).compute))
	work := m.trend(m.values(batchSum(requestSec)))
	var d *Drift
	switch {
	case walls != nil:
		d = m.describeDrift(walls, rollout.PhaseWait)
		d.Of, d.First = DriftOfStep, m.grownOver(walls)
	case compute != nil:
		d = m.describeDrift(compute, rollout.PhaseTrain)
		d.Of, d.First = DriftOfCompute, m.grownOver(compute)
	case work != nil && reg.P != nil:
		d = m.describeDrift(work, rollout.PhaseWait)
		d.Of = DriftOfProduction
		scale := reg.P.Sec / d.ToSec // request-seconds become the fleet's time for them
		d.FromSec, d.ToSec = d.FromSec*scale, d.ToSec*scale
	default:
		return nil
	}
	if reg.P != nil && reg.C.Sec > 0 && reg.P.Sec > 0 {
		d.meet(reg.C.Sec, reg.P.Sec, perStepOf(compute), perStepOf(work), m.steps[len(m.steps)-1].no)
	}
	return d
}

// values is something of each step, in order.
func (h *history) values(of func(*step) float64) []float64 {
	out := make([]float64, len(h.steps))
	for i := range h.steps {
		out[i] = of(&h.steps[i])
	}
	return out
}

// trend is the drift of a series that lasts; nil: none does.
func (h *history) trend(x []float64) *changepoint.Drift {
	found, err := changepoint.Detect(x, changepoint.Options{})
	if n := len(found.Drifts); err == nil && n > 0 && found.Drifts[n-1].To == len(x) {
		return &found.Drifts[n-1]
	}
	return nil
}

func (h *history) describeDrift(d *changepoint.Drift, first rollout.Phase) *Drift {
	return &Drift{
		From: h.steps[d.From].no, To: h.steps[d.To-1].no, PerStep: d.PerValue, LowPer: d.Low, HighPer: d.High,
		FromSec: d.Start, ToSec: d.End, First: first,
	}
}

// grownOver is the phase that moved most in the drift's direction, from its first quarter to its last.
func (h *history) grownOver(d *changepoint.Drift) rollout.Phase {
	quarter := max(1, (d.To-d.From)/4)
	before, after := positions(d.From, d.From+quarter), positions(d.To-quarter, d.To)
	first, most := rollout.PhaseOther, math.Inf(-1)
	for p, phase := range rollout.Phases() {
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

func perStepOf(d *changepoint.Drift) float64 {
	if d == nil {
		return 0
	}
	return d.PerValue
}

// meet sets when compute and production will be the same, if they come closer.
func (d *Drift) meet(compute, production, computePer, productionPer float64, last rollout.Step) {
	closing := math.Log1p(productionPer) - math.Log1p(computePer)
	if closing == 0 {
		return
	}
	steps := math.Log(compute/production) / closing
	if !(steps > 0 && steps < farthest) {
		return
	}
	at := last + rollout.Step(math.Ceil(steps))
	d.Equal, d.EqualSec = &at, compute*math.Pow(1+computePer, steps)
}
