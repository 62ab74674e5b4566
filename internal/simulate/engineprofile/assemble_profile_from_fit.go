package engineprofile

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

// Calibration is what was measured of an engine, and the cost that fits it.
type Calibration struct {
	Measurements *Measurements
	Fit          Fit
}

// Calibrate fits the cost.
func Calibrate(m *Measurements, cfg Config) (*Calibration, error) {
	fit, err := fitCost(m, cfg.TokenBudget)
	if err != nil {
		return nil, err
	}
	return &Calibration{m, fit}, nil
}

// Profile is the engine's profile. What cannot be measured from outside is taken over from another profile, and marked
// as assumed; with gpu set, so are its GPU and model, whose ceilings the profile must then keep.
func (c *Calibration) Profile(
	name, engine string, like *enginemodel.Profile, gpu bool, at time.Time,
) *enginemodel.Profile {
	m, cost := c.Measurements, c.Fit.Cost
	middle, worst := c.errors()
	how := fmt.Sprintf("millrace engine calibrate %s on %s: fitted to %d settings in %d rounds, off by %.1f %% "+
		"in the middle and %.1f %% at most",
		engine, at.Format(time.DateOnly), len(c.Fit.Rows), m.Rounds, 100*middle, 100*worst)
	figure := func(v float64) enginemodel.Figure {
		return enginemodel.Figure{Value: significant(v), Kind: enginemodel.Measured, Source: how}
	}
	assumed := func(f enginemodel.Figure) enginemodel.Figure {
		return enginemodel.Figure{Value: f.Value, Kind: enginemodel.Assumed, Source: "as " + like.Name + ": it cannot be " +
			"measured from outside"}
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	p := &enginemodel.Profile{
		Name: name,
		About: fmt.Sprintf("%s at %s (version %s), measured on %s", m.Model, engine,
			cmp.Or(m.Version, "not told"), at.Format(time.DateOnly)),
		Step: enginemodel.Step{
			FixedMS: figure(ms(cost.Step)), HiddenTokens: figure(float64(cost.FreeTokens)),
			TokenUS:  figure(1000 * ms(cost.Token)),
			DecodeMS: figure(ms(cost.Decode)), KVNS: figure(cost.KV), AttentionNS: figure(cost.Attention),
			LoRAFactor: assumed(like.Step.LoRAFactor),
		},
		Adapter: enginemodel.Adapter{ReadMS: assumed(like.Adapter.ReadMS), CopyMS: assumed(like.Adapter.CopyMS)},
		Engine: enginemodel.Limits{
			MaxSequences: assumed(like.Engine.MaxSequences), TokenBudget: assumed(like.Engine.TokenBudget),
			KVTokens: assumed(like.Engine.KVTokens), BlockTokens: assumed(like.Engine.BlockTokens),
			AdapterSlots: assumed(like.Engine.AdapterSlots), HostAdapters: assumed(like.Engine.HostAdapters),
			ColdStartSec: assumed(like.Engine.ColdStartSec), CallOverheadMS: figure(ms(c.Fit.CallOverhead)),
		},
	}
	if c.Fit.Adapter > 0 {
		p.Step.LoRAFactor = figure(cost.LoRA)
	}
	if m.MaxSequences > 0 {
		p.Engine.MaxSequences = figure(float64(m.MaxSequences))
	}
	if m.AdapterSlots > 0 {
		p.Engine.AdapterSlots = figure(float64(m.AdapterSlots))
		p.Engine.HostAdapters.Value = max(p.Engine.HostAdapters.Value, float64(m.AdapterSlots))
	}
	if c.Fit.TokenBudget > 0 {
		p.Engine.TokenBudget = figure(float64(c.Fit.TokenBudget))
	}
	if gpu {
		p.GPU, p.Model = like.GPU, like.Model
	}
	return p
}

// errors is how far the fit is off: in the middle, and at most.
func (c *Calibration) errors() (middle, worst float64) {
	var all []float64
	for i := range c.Fit.Rows {
		off := math.Abs(c.Fit.Rows[i].Error())
		all = append(all, off)
		worst = max(worst, off)
	}
	return stat.Median(all), worst
}

// significant rounds to four digits: no measurement has more.
func significant(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
