package enginemodel

import (
	"math"
	"time"

	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
)

// Profile is one kind of engine: a GPU, a model on it, and what was found out about how long its steps take.
type Profile struct {
	Name    string  `json:"name"`
	About   string  `json:"about"`
	Step    Step    `json:"step"`
	Adapter Adapter `json:"adapter"`
	Engine  Limits  `json:"engine"`
	// GPU and Model tell what no engine can go beyond. Without them nothing is held against it.
	GPU   GPU   `json:"gpu"`
	Model Model `json:"model"`
}

// Figure is one number of a profile, and where it comes from.
type Figure struct {
	Value  float64 `json:"value"`
	Kind   Kind    `json:"kind"`
	Source string  `json:"source"`
}

// Kind says how a figure came about.
type Kind string

// The kinds of figures.
const (
	Measured   Kind = "measured"   // on this kind of engine
	Published  Kind = "published"  // by whoever measured it, or by the maker
	Computed   Kind = "computed"   // follows from published figures
	Scaled     Kind = "scaled"     // from another GPU, by the ratio of published peaks: not measured at all
	Configured Kind = "configured" // an engine's setting
	Assumed    Kind = "assumed"
)

// Step is how long one step takes: the terms of batch.Cost.
type Step struct {
	FixedMS      Figure `json:"fixed_ms"`
	HiddenTokens Figure `json:"hidden_tokens"`
	TokenUS      Figure `json:"token_us"`
	DecodeMS     Figure `json:"decode_ms"`
	KVNS         Figure `json:"kv_ns"`
	AttentionNS  Figure `json:"attention_ns"`
	LoRAFactor   Figure `json:"lora_factor"`
}

// Adapter is how long bringing an adapter into memory takes.
type Adapter struct {
	ReadMS Figure `json:"read_ms"`
	CopyMS Figure `json:"copy_ms"`
}

// Limits are the engine's settings and memory, and what stands around its steps.
type Limits struct {
	MaxSequences   Figure `json:"max_sequences"`
	TokenBudget    Figure `json:"token_budget"`
	KVTokens       Figure `json:"kv_tokens"`
	BlockTokens    Figure `json:"block_tokens"`
	AdapterSlots   Figure `json:"adapter_slots"`
	HostAdapters   Figure `json:"host_adapters"`
	ColdStartSec   Figure `json:"cold_start_s"`
	CallOverheadMS Figure `json:"call_overhead_ms"`
}

// GPU is what its maker promises.
type GPU struct {
	Name          string `json:"name"`
	PeakTFLOPS    Figure `json:"peak_tflops"`
	BandwidthGBPS Figure `json:"bandwidth_gb_per_s"`
	MemoryGB      Figure `json:"memory_gb"`
}

// Model is what of a model counts for time and memory.
type Model struct {
	Name              string `json:"name"`
	ParametersBillion Figure `json:"parameters_billion"`
	WeightsGB         Figure `json:"weights_gb"`
	KVBytesPerToken   Figure `json:"kv_bytes_per_token"`
}

// Cost is how long the steps of such an engine take when all its times are multiplied by timeFactor.
func (p *Profile) Cost(timeFactor float64) batch.Cost {
	in := func(unit time.Duration, f Figure) time.Duration {
		return time.Duration(math.Round(f.Value * float64(unit) * timeFactor))
	}
	s, a := &p.Step, &p.Adapter
	return batch.Cost{
		Step:       in(time.Millisecond, s.FixedMS),
		FreeTokens: int(math.Round(s.HiddenTokens.Value)),
		Token:      in(time.Microsecond, s.TokenUS),
		Decode:     in(time.Millisecond, s.DecodeMS),
		KV:         s.KVNS.Value * timeFactor,
		Attention:  s.AttentionNS.Value * timeFactor,
		LoRA:       s.LoRAFactor.Value,

		AdapterRead: in(time.Millisecond, a.ReadMS),
		AdapterCopy: in(time.Millisecond, a.CopyMS),
	}
}

// Limits is what such an engine can hold. They do not depend on how fast it is.
func (p *Profile) Limits() batch.Limits {
	count := func(f Figure) int { return int(math.Round(f.Value)) }
	e := &p.Engine
	return batch.Limits{
		Sequences: count(e.MaxSequences), Tokens: count(e.TokenBudget), KV: count(e.KVTokens), Block: count(e.BlockTokens),
		Adapters: count(e.AdapterSlots), HostAdapter: count(e.HostAdapters),
	}
}

// ColdStart is the time from the start of an engine to its first answer.
func (p *Profile) ColdStart(timeFactor float64) time.Duration {
	return time.Duration(p.Engine.ColdStartSec.Value * float64(time.Second) * timeFactor)
}

// CallOverhead is what a completion takes beside the engine's steps, there and back; 0: not known. It is of the place
// where it was measured, and no time of the engine's: no factor applies.
func (p *Profile) CallOverhead() time.Duration {
	return time.Duration(p.Engine.CallOverheadMS.Value * float64(time.Millisecond))
}
