package fleet

import (
	"time"

	"github.com/millrace/millrace/internal/engine/vllm"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// loadBetween turns two readings of an engine's counters into rates over the window between them. Counters restart at
// zero with the engine: then the second reading counts only from the restart.
func loadBetween(before, after vllm.Sample, from, to time.Time) enginestate.EngineLoad {
	window := to.Sub(from).Seconds()
	load := enginestate.EngineLoad{
		At: to.UTC(), Running: after.Running, Waiting: after.Waiting, KVUsage: after.KVUsage, WindowSec: window,
		InputTokens: after.PromptTokens, OutputTokens: after.GenerationTokens,
	}
	if window <= 0 {
		load.WindowSec = 0
		return load
	}
	load.Preemptions = increase(before.Preemptions, after.Preemptions)
	load.InputTPS = believable(increase(before.PromptTokens, after.PromptTokens) / window)
	load.OutputTPS = believable(increase(before.GenerationTokens, after.GenerationTokens) / window)
	load.Requests = increase(before.Requests, after.Requests)
	if load.Requests > 0 {
		load.RequestSec = believable(increase(before.RequestSec, after.RequestSec) / load.Requests)
	}
	if asked := increase(before.PrefixQueries, after.PrefixQueries); asked > 0 {
		load.PrefixHitShare = min(1, increase(before.PrefixHits, after.PrefixHits)/asked)
	}
	return load
}

// believable is a rate in tokens per second, or 0 for one that no engine has: it would be all that the fleet's sums
// show.
func believable(rate float64) float64 {
	const most = 1e8
	if rate > most {
		return 0
	}
	return rate
}

func increase(before, after float64) float64 {
	if after < before {
		return after
	}
	return after - before
}
