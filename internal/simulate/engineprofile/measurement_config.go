package engineprofile

import (
	"time"

	"github.com/millrace/millrace/internal/kit/settings"
)

// Config says how an engine is measured. Start from DefaultConfig.
type Config struct {
	Model   string // a base model, or an adapter; empty: the first base model that the engine lists
	Adapter string // empty: the LoRA factor is not measured, unless Model is an adapter

	MaxBatch      int // requests at once, at most
	LongestPrompt int // tokens, at most
	TokenBudget   int // that the engine is thought to have in a step; a smaller one is found out
	Rounds        int // measurements of each setting
	MaxTime       time.Duration
	Timeout       time.Duration // of one completion
	Seed          uint64        // of the prompts: another one for each calibration, or the prefix cache knows them

	Say func(format string, args ...any)
	// At is told how many measurements are done, and of how many; nil is fine.
	At func(done, of int)
}

// DefaultConfig measures for a minute or two on a GPU of today.
func DefaultConfig() Config {
	return Config{MaxBatch: 256, LongestPrompt: 8192, TokenBudget: 16384, Rounds: 3, MaxTime: 5 * time.Minute,
		Timeout: 2 * time.Minute}
}

// Validate reports everything that is wrong with c.
func (c Config) Validate() error {
	var faults settings.Checks
	require := faults.Require
	require(c.MaxBatch >= 4 && c.MaxBatch <= 1024, "max batch: %d is not from 4 to 1024", c.MaxBatch)
	require(c.LongestPrompt >= 512, "longest prompt: %d tokens are less than 512, with which a prefill is hardly felt",
		c.LongestPrompt)
	require(c.TokenBudget >= 256, "token budget: %d is less than 256", c.TokenBudget)
	require(c.Rounds >= 1 && c.Rounds <= 100, "rounds: %d is not from 1 to 100", c.Rounds)
	require(c.MaxTime > 0 && c.Timeout > 0, "max time and timeout must be positive")
	return faults.Err()
}
