package diagnosis

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/capacity"
	"github.com/millrace/millrace/internal/units"
)

// probeOf is the cheapest experiment that tells saturated engines from engines with room: half as many requests in
// flight. Saturated engines take as long for a step as before.
func probeOf(m *measurements, reg *regime, model *replayModel) *Probe {
	limit := max(1, int(math.Round(reg.speed.Load/2)))
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
		Command: "millrace probe " + string(m.in.Spec.Name), MaxInFlight: limit, Steps: 2,
		SaturatedSec: with(reg.speed.Saturated), FreeSec: with(reg.speed.Free),
	}
	p.Text = fmt.Sprintf("let each engine have at most %d requests in flight for %d steps, half as many as now: if a "+
		"step then takes about %s, engines are saturated and more of them help; if it takes about %s, they have room, and "+
		"depth helps", limit, p.Steps, units.Seconds(p.SaturatedSec), units.Seconds(p.FreeSec))
	return p
}
