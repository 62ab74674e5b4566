package enginemodel

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
)

// Ceiling is a bound that physics sets to an engine, and how near the profile comes to it.
type Ceiling struct {
	Path    string // of the figure that decides
	What    string
	Profile float64
	Bound   float64
	Unit    string
	Because string
	AtLeast bool // the bound is a floor
}

// Broken reports whether the profile goes beyond the bound. What is lost in rounding to nanoseconds does not count.
func (c Ceiling) Broken() bool {
	const rounding = 1e-6
	if c.AtLeast {
		return c.Profile < c.Bound*(1-rounding)
	}
	return c.Profile > c.Bound*(1+rounding)
}

// Ceilings is what the profile's GPU and model allow, none if it does not tell them. A step without an adapter is held
// against them: adapters only make it longer.
func (p *Profile) Ceilings() []Ceiling {
	if p.GPU.PeakTFLOPS.Value == 0 || p.Model.WeightsGB.Value == 0 {
		return nil
	}
	cost, limits := p.Cost(1), p.Limits()
	flops, bandwidth := p.GPU.PeakTFLOPS.Value*1e12, p.GPU.BandwidthGBPS.Value*1e9
	weights, kv := p.Model.WeightsGB.Value*1e9, p.Model.KVBytesPerToken.Value
	tokens, rate := fastestPrefill(cost, limits.Tokens)
	return []Ceiling{
		{
			Path: "step.token_us", What: fmt.Sprintf("prefill of %d tokens in one step", tokens), Unit: "tokens/s",
			Profile: rate, Bound: flops / (2 * p.Model.ParametersBillion.Value * 1e9),
			Because: fmt.Sprintf("each token takes 2 x %g x 10^9 operations, and gpu.peak_tflops is %g",
				p.Model.ParametersBillion.Value, p.GPU.PeakTFLOPS.Value),
		},
		{
			Path: "step.fixed_ms", What: "a step that decodes one sequence", Unit: "ms", AtLeast: true,
			Profile: milliseconds(cost.Duration(batch.Work{Decoding: 1})), Bound: 1000 * weights / bandwidth,
			Because: fmt.Sprintf("model.weights_gb, %g, is read at gpu.bandwidth_gb_per_s, %g",
				p.Model.WeightsGB.Value, p.GPU.BandwidthGBPS.Value),
		},
		{
			Path: "step.kv_ns", What: "reading one token of the KV cache", Unit: "ns", AtLeast: true,
			Profile: cost.KV, Bound: 1e9 * kv / bandwidth,
			Because: fmt.Sprintf("model.kv_bytes_per_token, %g, is read at gpu.bandwidth_gb_per_s, %g",
				kv, p.GPU.BandwidthGBPS.Value),
		},
		{
			Path: "engine.kv_tokens", What: "weights and KV cache", Unit: "GB",
			Profile: (weights + kv*float64(limits.KV)) / 1e9, Bound: p.GPU.MemoryGB.Value,
			Because: fmt.Sprintf("%d tokens of %g bytes and model.weights_gb, %g, must fit into gpu.memory_gb",
				limits.KV, kv, p.Model.WeightsGB.Value),
		},
	}
}

// fastestPrefill is the number of prompt tokens in one step that are computed at the highest rate, and the rate per
// second. The rate rises up to the hidden tokens, and goes steadily one way from there on.
func fastestPrefill(cost batch.Cost, budget int) (tokens int, rate float64) {
	for _, n := range []int{max(1, min(cost.FreeTokens, budget)), budget} {
		if r := float64(n) / cost.Duration(batch.Work{Prefill: n}).Seconds(); r > rate {
			tokens, rate = n, r
		}
	}
	return tokens, rate
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ceilings reports every bound that the profile breaks, with both numbers.
func (p *Profile) ceilings() settings.Faults {
	var faults settings.Faults
	for _, c := range p.Ceilings() {
		if !c.Broken() {
			continue
		}
		than := "more than the"
		if c.AtLeast {
			than = "less than the"
		}
		faults.Add(c.Path, "%s: %.6g %s is %s %.6g %s that are possible: %s",
			c.What, c.Profile, c.Unit, than, c.Bound, c.Unit, c.Because)
	}
	return faults
}
