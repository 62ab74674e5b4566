package faultsuite

import (
	"math/rand/v2"

	"github.com/millrace/millrace/trials/diagnosis/requestsim"
)

// waitingKinds are the ways in which runs wait before anything happens, and what is said of one that stays so.
var waitingKinds = map[string][]causeName{
	"full": causes(Throughput), "saturated": causes(Throughput), "latency": causes(Latency),
	"mixed": causes(Throughput, Latency),
}

// waitingFaults are those that may happen to a run whatever it waits for, and none.
var waitingFaults = []drawnFault{
	{name: "nothing"},
	{name: "completions", want: causes(LongerCompletions), do: func(c *control, by float64) { c.Output *= by }},
	{name: "one-lost", want: causes(EngineLost), do: func(c *control, _ float64) { c.Lose(c.Last(1)...) }},
	{name: "half-lost", want: causes(EngineLost), do: func(c *control, _ float64) { c.Lose(c.Half()...) }},
	{name: "drained", want: causes(ScaleDown), do: func(c *control, _ float64) { c.Drain(c.Half()...) }},
	{name: "all-slow", want: causes(EngineSlow), do: func(c *control, by float64) { c.Slow(by, false, c.All()...) }},
	{name: "games", want: causes(LongerGames), do: func(c *control, by float64) { c.Turns *= by }},
	{name: "environment", want: causes(Environment), do: func(c *control, by float64) { c.Env += 2 * by }},
	{name: "train", want: causes(Trainer), do: func(c *control, by float64) { c.Train *= by }},
	{name: "depth", want: causes(Config, Depth), do: func(c *control, _ float64) {
		c.Operator("set buffer.depth=%d (was %d)", (c.Depth+1)/2, c.Depth)
		c.Depth = (c.Depth + 1) / 2
	}},
}

// WaitingCases are n runs that wait from the start, with slots that are full, engines that are saturated or idle or
// something between, one to six batches deep, and with games that are alike or not. A third of their way something
// happens, or nothing does.
func WaitingCases(n int, seed uint64) []Case {
	fit := func(f drawnFault, w *world, before, after float64) bool {
		return before > 1.2*computeOf(w) && (f.do == nil || after >= 1.2*before && after <= 5*before)
	}
	return drawnCases("waiting", n, seed, waitingFaults, waitingWorld, fit)
}

func waitingWorld(rng *rand.Rand, _ drawnFault) (w world, by float64, kind string) {
	kinds := []string{"full", "saturated", "latency", "mixed"}
	kind = kinds[rng.IntN(len(kinds))]
	depth := 1 + rng.IntN(6)
	w = map[string]func(int) world{"full": slotsWorld, "saturated": sharedWorld, "latency": latencyWorld,
		"mixed": latencyWorld}[kind](1)
	long := between(rng, 1.4, 2.6)
	switch kind {
	case "latency":
		w.Turns *= long * float64(depth) / 2
	case "mixed":
		w.Turns *= long * float64(depth) / 4
		w.Engine.PerRequest = between(rng, 0.3, 1) / (4.5 * float64(depth))
	default:
		w.Engine.PromptSec, w.Engine.OutputSec = long*w.Engine.PromptSec, long*w.Engine.OutputSec
	}
	w = deep(w, depth)
	w.TurnsCV, w.TokensCV = 0.3*rng.Float64(), between(rng, 0.1, 0.4)
	w.Noise = requestsim.Noise{CV: between(rng, 0.02, 0.06), Memory: 0.5 * rng.Float64()}
	w.FleetNoise = requestsim.Noise{CV: between(rng, 0.01, 0.04), Memory: 0.5 * rng.Float64()}
	w.Until = 30 + rng.IntN(40)
	return w, between(rng, 1.3, 3), kind
}
