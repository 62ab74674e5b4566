package diagnosis

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/capacity"
	"github.com/millrace/millrace/internal/units"
)

const (
	// probeSteps is for how many steps a probe goes on.
	probeSteps = 2
	// leastProbed is the requests in flight at an engine with fewer of which a probe is refused.
	leastProbed = 2
)

// probeOf is the cheapest experiment that tells saturated engines from engines with room: half as many requests in
// flight. Saturated engines take as long for a step as before. It is nil where the run would refuse it: where it is
// over or soon will be, or has too little in flight to halve.
func probeOf(m *measurements, reg *regime, model *replayModel) *Probe {
	limit := int(math.Floor(reg.speed.Load / 2))
	own := m.in.Spec.Dispatch.MaxInFlightPerEngine
	claimed := int(m.steps[len(m.steps)-1].no) + 1
	switch total := m.in.Spec.Steps; {
	case m.in.Over, total > 0 && claimed+1+probeSteps >= total, reg.slots.own < leastProbed*m.fleet.engines:
		return nil
	case limit < 1 || own > 0 && limit >= own:
		return nil
	}
	now := reg.StepSec
	with := func(c capacity.Curve) float64 {
		other := model.withCurve(c)
		was := other.without(change{}).StepSec
		if was <= 0 {
			return now
		}
		return now * other.without(change{engineLimit: limit}).StepSec / was
	}
	p := &Probe{
		Command: "millrace probe " + string(m.in.Spec.Name), MaxInFlight: limit, Steps: probeSteps,
		SaturatedSec: with(reg.speed.Saturated), FreeSec: with(reg.speed.Free),
	}
	p.Text = fmt.Sprintf("let each engine have at most %d requests in flight for %d steps, half as many as now: if a "+
		"step then takes about %s, engines are saturated and more of them help; if it takes about %s, they have room, and "+
		"depth helps", limit, p.Steps, units.Seconds(p.SaturatedSec), units.Seconds(p.FreeSec))
	return p
}
