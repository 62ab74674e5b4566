package pseudolm

import (
	"slices"

	"github.com/millrace/millrace/internal/enginesim/constraint"
	"github.com/millrace/millrace/internal/enginesim/tokenizer"
)

// NoLogprobs as Params.Logprobs asks for none.
const NoLogprobs = -1

// minTemperature is what vLLM raises smaller non-zero temperatures to.
const minTemperature = 0.01

// Params is how to sample one completion. The zero value is greedy and stops at once;
// start from DefaultParams.
type Params struct {
	Seed        uint64
	Temperature float64 // 0 is greedy
	TopP        float64 // 1 is off
	TopK        int     // 0 is off
	MinP        float64 // 0 is off

	RepetitionPenalty float64 // 1 is off
	PresencePenalty   float64
	FrequencyPenalty  float64
	LogitBias         map[tokenizer.ID]float64
	Allowed           []tokenizer.ID // empty: all

	MaxTokens   int
	MinTokens   int
	IgnoreEOS   bool
	StopTokens  []tokenizer.ID
	Stop        []string
	IncludeStop bool // keep the stop string in the text
	KeepControl bool // keep control tokens in the text
	Constraint  *constraint.Automaton
	Logprobs    int  // how many alternatives per token; 0 gives the sampled token's only
	RawLogprobs bool // of the logits before penalties, temperature and truncation
}

// DefaultParams are vLLM's defaults for completions.
func DefaultParams() Params {
	return Params{Temperature: 1, TopP: 1, RepetitionPenalty: 1, MaxTokens: 16, Logprobs: NoLogprobs}
}

// adjusts reports whether logits depend on more than weights and context.
func (p *Params) adjusts() bool {
	return p.RepetitionPenalty != 1 || p.PresencePenalty != 0 || p.FrequencyPenalty != 0 || len(p.LogitBias) > 0
}

// stops reports whether a token ends the completion.
func (p *Params) stops(id tokenizer.ID) bool {
	return id == tokenizer.EOS && !p.IgnoreEOS || slices.Contains(p.StopTokens, id)
}

// masks reports whether a token may not be sampled as the n-th of the completion.
func (p *Params) masks(id tokenizer.ID, n int) bool {
	if n < p.MinTokens && (id == tokenizer.EOS || slices.Contains(p.StopTokens, id)) {
		return true
	}
	return len(p.Allowed) > 0 && !slices.Contains(p.Allowed, id)
}
