package enginebench

import (
	"slices"

	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
)

// The reference call, for sizing only.
const (
	promptTokens     = 440
	completionTokens = 24
	// perGroup is about how many requests of one group are in flight when nothing holds them back: some games are
	// in a phase of few decisions.
	perGroup = 21
	// callsPerCore is what one core serves with ease, simulated engine and dispatch together: about an eighth of
	// what it can, so that neither other processes nor its own delays are measured.
	callsPerCore = 125
	// realConcurrency is what an engine with a GPU is given unless told otherwise.
	realConcurrency = 128
)

// sized fills in the concurrency.
func (c Config) sized(cores int) Config {
	switch {
	case c.Concurrency > 0:
	case len(c.URLs) > 0:
		c.Concurrency = realConcurrency
	default:
		c.Concurrency = affordable(cores, slices.Max(c.Counts), c.Speed)
	}
	return c
}

// affordable is the largest power of two, at most 64, of requests per engine that the cores can serve to so many
// simulated engines, all busy.
func affordable(cores, engines int, speed float64) int {
	budget := float64(cores) * callsPerCore / (float64(engines) * speed)
	n := 1
	for n < 64 && modelledRate(2*n) <= budget {
		n *= 2
	}
	return n
}

// modelledRate is the calls per second of a simulated engine that always has n of them, three quarters of each
// prompt cached.
func modelledRate(n int) float64 {
	step := batch.A100Qwen7B().Duration(batch.Work{
		Decoding: n, KV: n * (promptTokens + completionTokens/2), Prefill: n * promptTokens / 4 / completionTokens,
		UseAdapter: true,
	})
	return float64(n) / (completionTokens * step.Seconds())
}
