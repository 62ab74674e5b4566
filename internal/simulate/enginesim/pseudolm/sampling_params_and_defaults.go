package pseudolm

import "github.com/millrace/millrace/internal/simulate/enginesim/constraint"

// minTemperature is what vLLM raises smaller non-zero temperatures to.
const minTemperature = 0.01

// Params is how to sample one completion. The zero value is greedy and stops at once;
// start from DefaultParams.
type Params struct {
	Seed        uint64
	Temperature float64 // 0 is greedy
	TopP        float64 // 1 is off
	TopK        int     // 0 is off

	MaxTokens  int
	IgnoreEOS  bool
	Stop       []string
	Constraint *constraint.Automaton
}

// DefaultParams are vLLM's defaults for completions.
func DefaultParams() Params {
	return Params{Temperature: 1, TopP: 1, MaxTokens: 16}
}
