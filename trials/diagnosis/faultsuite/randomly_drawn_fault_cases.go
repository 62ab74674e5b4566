package faultsuite

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/trials/diagnosis/requestsim"
)

// drawnFault is a kind of fault whose size is drawn.
type drawnFault struct {
	name string
	want []causeName
	// do makes it happen, as strong as a factor says; setUp, if set, prepares the world.
	do    func(c *control, by float64)
	setUp func(w *world)
	long  bool // only where games are long and engines idle
	busy  bool // only where engines are the limit
}

var drawnFaults = []drawnFault{
	{name: "all-slow", want: causes(EngineSlow), do: func(c *control, by float64) { c.Slow(by, false, c.All()...) }},
	{name: "half-slow", want: causes(EngineSlow), busy: true,
		do: func(c *control, by float64) { c.Slow(3*by, false, c.Half()...) }},
	{name: "half-slow-noticed", want: causes(EngineSlow), busy: true,
		do: func(c *control, by float64) { c.Slow(3*by, true, c.Half()...) }},
	{name: "lost", want: causes(EngineLost), busy: true, do: func(c *control, _ float64) { c.Lose(c.Half()...) }},
	{name: "drained", want: causes(ScaleDown), busy: true, do: func(c *control, _ float64) { c.Drain(c.Half()...) }},
	{name: "completions", want: causes(LongerCompletions), do: func(c *control, by float64) { c.Output *= 1.5 * by }},
	{name: "prompts", want: causes(LongerPrompts), busy: true, do: func(c *control, by float64) { c.Prompt *= 1.7 * by }},
	{name: "prefix-hits", want: causes(PrefixHits), busy: true, do: func(c *control, _ float64) { c.Shared = 0 }},
	{name: "games", want: causes(LongerGames), do: func(c *control, by float64) { c.Turns *= by }},
	{name: "agents", want: causes(LongerGames), busy: true, do: func(c *control, _ float64) { c.Agents *= 2 }},
	{name: "environment", want: causes(Environment), long: true, do: func(c *control, by float64) { c.Env += 4 * by }},
	{name: "refills", want: causes(MoreGames, Drops), busy: true,
		setUp: func(w *world) { w.ZeroVariance = runspec.DropZeroVariance },
		do:    func(c *control, _ float64) { c.NoVariance = 0.55 }},
	{name: "other-runs", want: causes(OtherWork), busy: true,
		do: func(c *control, by float64) {
			c.OthersHold, c.OtherSec = int(by*float64(c.Engines*min(c.Slots, 40))/3), 5*c.Output*c.World.Engine.OutputSec
		}},
	{name: "places", want: causes(Workers), setUp: func(w *world) { w.Places = w.Depth * w.Groups * w.Games },
		do: func(c *control, by float64) { c.Places = max(1, int(float64(c.Places)/(5*by))) }},
	{name: "own-limit", want: causes(OwnLimit, Config), busy: true, do: func(c *control, by float64) {
		n := max(1, int(float64(min(c.Slots, 12))/(2*by)))
		c.Operator("set dispatch.max_in_flight_per_engine=%d (was 0)", n)
		c.OwnLimit = n
	}},
	{name: "depth", want: causes(Config, Depth), long: true, do: func(c *control, _ float64) {
		c.Operator("set buffer.depth=1 (was %d)", c.Depth)
		c.Depth = 1
	}},
	{name: "claim", want: causes(Handover), do: func(c *control, by float64) { c.Claim = 0.25 * by * c.Train }},
	{name: "deliver", want: causes(Handover), do: func(c *control, by float64) { c.Deliver = 0.25 * by * c.Train }},
	{name: "train", want: causes(Trainer), do: func(c *control, by float64) { c.Train *= by }},
	{name: "ref", want: causes(RefLogprobs), do: func(c *control, by float64) { c.Ref *= 1.5 * by }},
	{name: "publish", want: causes(Publish), do: func(c *control, by float64) { c.Publish += 0.25 * by * c.Train }},
	{name: "checkpoint", want: causes(Checkpoint), setUp: func(w *world) { w.Checkpoint, w.CheckpointEvery = w.Train, 4 }},
	{name: "from-the-start", want: causes(Throughput), busy: true, setUp: func(w *world) {
		w.Engine.PromptSec, w.Engine.OutputSec = 2.2*w.Engine.PromptSec, 2.2*w.Engine.OutputSec
	}},
	{name: "long-from-the-start", want: causes(Latency), long: true, setUp: func(w *world) { w.Turns *= 2 }},
}

func causes(names ...causeName) []causeName { return names }

// DrawnCases are n runs each of whose sizes is drawn, the fault's included, so that nobody can have had them in mind.
// Of faults that change nothing that matters none is taken.
func DrawnCases(n int, seed uint64) []Case {
	return drawnCases("drawn", n, seed, drawnFaults, drawnWorld, func(_ drawnFault, w *world, before, after float64) bool {
		return before <= 1.06*computeOf(w) && after >= 1.2*before && after <= 5*before
	})
}

// HealthyCases are n runs whose sizes are drawn, and nothing else.
func HealthyCases(n int, seed uint64) []Case {
	fit := func(_ drawnFault, w *world, before, _ float64) bool { return before <= 1.03*computeOf(w) }
	return drawnCases("healthy", n, seed, []drawnFault{{name: "nothing"}}, drawnWorld, fit)
}

// drawnCases are the first n runs, of a world and a fault each, whose steps before the fault and after it fit.
func drawnCases(
	family string, n int, seed uint64, faults []drawnFault,
	draw func(*rand.Rand, drawnFault) (world, float64, string),
	fit func(f drawnFault, w *world, before, after float64) bool,
) []Case {
	var cases []Case
	rng := rand.New(rand.NewPCG(seed, 7))
	for no := 0; len(cases) < n && no < 20*n; no++ {
		f := faults[no%len(faults)]
		w, by, kind := draw(rng, f)
		quiet, loud := w, w
		if f.setUp != nil {
			f.setUp(&loud)
			if f.do != nil {
				quiet = loud
			}
		}
		if f.do != nil {
			loud = withAt(loud, loud.Until/3, func(c *control) { f.do(c, by) })
		}
		quiet.SampleEvery, quiet.Until = 0, loud.Until+20
		loud.SampleEvery = 0
		longer := loud
		longer.Until += 20
		was, is := requestsim.Play(quiet), requestsim.Play(longer)
		before, after := was.Steady(20), is.Steady(20)
		if !fit(f, &w, before, after) {
			continue
		}
		name := fmt.Sprintf("%s-%03d-%s-%s", family, no, kind, f.name)
		injected := fmt.Sprintf("%s x%.2f from step %d of %d, depth %d, %d groups of %d, %d engines: "+
			"%.0f s a step become %.0f s",
			f.name, by, loud.Until/3, loud.Until, w.Depth, w.Groups, w.Games, w.Engines, before, after)
		cases = append(cases, requestCase(name, injected, func(int) world { return loud }, f.wanted(kind)...))
	}
	return cases
}

// wanted is what must be said; of a fault that changes nothing, it is why runs of a kind wait.
func (f *drawnFault) wanted(kind string) []causeName {
	if f.do == nil && f.want == nil {
		return waitingKinds[kind]
	}
	return f.want
}

// drawnWorld is a run of any size that is healthy, and how strong its fault is.
func drawnWorld(rng *rand.Rand, f drawnFault) (w world, by float64, kind string) {
	kinds := []string{"slots", "shared", "split", "long"}
	kind = kinds[rng.IntN(len(kinds))]
	switch {
	case f.long:
		kind = "long"
	case f.busy && kind == "long":
		kind = "shared"
	}
	w = map[string]func(int) world{"slots": slotsWorld, "shared": sharedWorld, "split": splitWorld,
		"long": latencyWorld}[kind](1)
	// Time is another: everything that takes time does so by the same factor.
	t := between(rng, 0.03, 3)
	load := between(rng, 0.85, 1.2) // how near the engines are to their limit
	for _, sec := range []*float64{&w.Load, &w.Ref, &w.Train, &w.Publish, &w.Env, &w.AdapterLoad, &w.SampleEvery} {
		*sec *= t
	}
	w.Engine.PromptSec, w.Engine.OutputSec = t*load*w.Engine.PromptSec, t*load*w.Engine.OutputSec
	w.Depth = 2 + rng.IntN(3)
	w.MaxStaleness = w.Depth + rng.IntN(3)
	if kind != "long" { // the same work in other sizes
		size := 1 + rng.IntN(3)
		w.Groups, w.Engines = w.Groups*size/2, max(2, w.Engines*size/2)
		if rng.IntN(2) == 0 {
			w.Games, w.Turns = w.Games*2, w.Turns/2
		}
	}
	w.TurnsCV, w.TokensCV = between(rng, 0.05, 0.4), between(rng, 0.1, 0.6)
	w.Noise = requestsim.Noise{CV: between(rng, 0.02, 0.1), Memory: 0.5 * rng.Float64()}
	w.FleetNoise = requestsim.Noise{CV: between(rng, 0.01, 0.06), Memory: 0.5 * rng.Float64()}
	w.Until = 24 + rng.IntN(40)
	return w, between(rng, 1.5, 3), kind
}

// between is a number of a range, as likely in its lower octave as in its upper.
func between(rng *rand.Rand, low, high float64) float64 {
	return low * math.Pow(high/low, rng.Float64())
}

// computeOf is what a step takes the trainer of a world.
func computeOf(w *world) float64 { return w.Load + w.Ref + w.Train + w.Publish }
