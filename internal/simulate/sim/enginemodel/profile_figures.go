package enginemodel

import (
	"github.com/millrace/millrace/internal/kit/settings"
)

// row is one figure of a profile, as a file names it.
type row struct {
	section, key string
	doc          string
	least        float64
	above        bool // the value must be more than the least
	whole        bool // a count
	optional     bool
	of           func(*Profile) *Figure
}

func (r *row) path() string { return settings.Join(r.section, r.key) }

// rows is every figure, in the order of a file.
var rows = []row{
	{section: "step", key: "fixed_ms", above: true,
		doc: "milliseconds of every step: weights read, kernels launched, work of the host",
		of:  func(p *Profile) *Figure { return &p.Step.FixedMS }},
	{section: "step", key: "hidden_tokens", whole: true,
		doc: "tokens of a step that cost nothing, because the weights are being read meanwhile",
		of:  func(p *Profile) *Figure { return &p.Step.HiddenTokens }},
	{section: "step", key: "token_us", above: true,
		doc: "microseconds of each further token of a step, of prompts or generated",
		of:  func(p *Profile) *Figure { return &p.Step.TokenUS }},
	{section: "step", key: "decode_ms",
		doc: "milliseconds more of a step in which any sequence decodes",
		of:  func(p *Profile) *Figure { return &p.Step.DecodeMS }},
	{section: "step", key: "kv_ns",
		doc: "nanoseconds of a step for each token in the KV cache of the sequences that decode",
		of:  func(p *Profile) *Figure { return &p.Step.KVNS }},
	{section: "step", key: "attention_ns",
		doc: "nanoseconds for each token of a prompt's chunk and each token of its context after the chunk",
		of:  func(p *Profile) *Figure { return &p.Step.AttentionNS }},
	{section: "step", key: "lora_factor", least: 1,
		doc: "factor on all of it when a sequence of the step uses an adapter",
		of:  func(p *Profile) *Figure { return &p.Step.LoRAFactor }},
	{section: "adapter", key: "read_ms",
		doc: "milliseconds to bring an adapter from disk to the host's memory",
		of:  func(p *Profile) *Figure { return &p.Adapter.ReadMS }},
	{section: "adapter", key: "copy_ms",
		doc: "milliseconds to bring an adapter from the host's memory into a slot of the GPU",
		of:  func(p *Profile) *Figure { return &p.Adapter.CopyMS }},
	{section: "engine", key: "max_sequences", least: 1, whole: true,
		doc: "sequences that run at once (vLLM: --max-num-seqs)",
		of:  func(p *Profile) *Figure { return &p.Engine.MaxSequences }},
	{section: "engine", key: "token_budget", least: 1, whole: true,
		doc: "tokens that one step computes (vLLM: --max-num-batched-tokens)",
		of:  func(p *Profile) *Figure { return &p.Engine.TokenBudget }},
	{section: "engine", key: "kv_tokens", least: 1, whole: true,
		doc: "tokens that the KV cache has room for",
		of:  func(p *Profile) *Figure { return &p.Engine.KVTokens }},
	{section: "engine", key: "block_tokens", least: 1, whole: true,
		doc: "tokens of a block of the prefix cache (vLLM: --block-size)",
		of:  func(p *Profile) *Figure { return &p.Engine.BlockTokens }},
	{section: "engine", key: "adapter_slots", least: 1, whole: true,
		doc: "adapters in one batch (vLLM: --max-loras)",
		of:  func(p *Profile) *Figure { return &p.Engine.AdapterSlots }},
	{section: "engine", key: "host_adapters", least: 1, whole: true,
		doc: "adapters in the host's memory (vLLM: --max-cpu-loras)",
		of:  func(p *Profile) *Figure { return &p.Engine.HostAdapters }},
	{section: "engine", key: "cold_start_s",
		doc: "seconds from the start of an engine to its first answer",
		of:  func(p *Profile) *Figure { return &p.Engine.ColdStartSec }},
	{section: "engine", key: "call_overhead_ms", optional: true,
		doc: "milliseconds that a completion takes beside the engine's steps, from where it was measured",
		of:  func(p *Profile) *Figure { return &p.Engine.CallOverheadMS }},
	{section: "gpu", key: "peak_tflops", above: true,
		doc: "10^12 floating-point operations per second, dense, of the type of number that the model has",
		of:  func(p *Profile) *Figure { return &p.GPU.PeakTFLOPS }},
	{section: "gpu", key: "bandwidth_gb_per_s", above: true,
		doc: "10^9 bytes per second between the GPU and its memory",
		of:  func(p *Profile) *Figure { return &p.GPU.BandwidthGBPS }},
	{section: "gpu", key: "memory_gb", above: true,
		doc: "10^9 bytes of memory",
		of:  func(p *Profile) *Figure { return &p.GPU.MemoryGB }},
	{section: "model", key: "parameters_billion", above: true,
		doc: "10^9 parameters that a token is multiplied with",
		of:  func(p *Profile) *Figure { return &p.Model.ParametersBillion }},
	{section: "model", key: "weights_gb", above: true,
		doc: "10^9 bytes of weights",
		of:  func(p *Profile) *Figure { return &p.Model.WeightsGB }},
	{section: "model", key: "kv_bytes_per_token", above: true,
		doc: "bytes of the KV cache for each token",
		of:  func(p *Profile) *Figure { return &p.Model.KVBytesPerToken }},
}

// physicalSections may be left out together: then nothing is held against physics.
var physicalSections = []string{"gpu", "model"}

var kinds = []string{string(Measured), string(Published), string(Computed), string(Scaled), string(Configured),
	string(Assumed)}

// keys is the table by which a profile's file is read.
var keys = func() settings.Table {
	t := settings.Table{Keys: []settings.Key{
		{Path: "name", Doc: "the profile's name", Required: true},
		{Path: "about", Doc: "what it is a profile of"},
		{Path: "gpu.name", Doc: "the GPU's name"}, {Path: "model.name", Doc: "the model's name"},
	}}
	sections := map[string]bool{}
	for i := range rows {
		r := &rows[i]
		if !sections[r.section] {
			sections[r.section] = true
			t.Keys = append(t.Keys, settings.Key{Path: r.section, Doc: "figures"})
		}
		t.Keys = append(t.Keys, settings.Key{Path: r.path(), Doc: r.doc},
			settings.Key{Path: r.path() + ".value", Doc: r.doc},
			settings.Key{Path: r.path() + ".kind", Doc: "how the figure came about", OneOf: kinds},
			settings.Key{Path: r.path() + ".source", Doc: "where the figure comes from"})
	}
	return t
}()

// NamedFigure is a figure with its place in a profile.
type NamedFigure struct {
	Section, Key string
	Figure
}

// Figures is every figure of a profile that is given, in the order of a file.
func (p *Profile) Figures() []NamedFigure {
	var all []NamedFigure
	for i := range rows {
		if f := rows[i].of(p); f.Source != "" {
			all = append(all, NamedFigure{rows[i].section, rows[i].key, *f})
		}
	}
	return all
}
