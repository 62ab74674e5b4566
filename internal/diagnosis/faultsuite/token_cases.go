package faultsuite

import (
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/tokensim"
)

// TokenCases are the faults that package tokensim is given. They are held out: nothing is tuned on them. When they were
// first tried, 91 of 96 runs were named rightly.
func TokenCases() []Case {
	var cases []Case
	add := func(name, injected string, make func(w *tokensim.World), want ...diagnosis.CauseName) {
		cases = append(cases, Case{Name: name, Injected: injected, Want: want,
			Play: func(_ int, seed uint64) (Played, error) {
				w := tokensim.Usual()
				make(&w)
				w.Seed = seed
				return Played{Input: tokensim.Play(w)}, nil
			}})
	}
	from := func(w *tokensim.World, step int, do func(*tokensim.Run)) {
		w.Faults = append(w.Faults, tokensim.Fault{Step: step, Do: do})
	}

	// Engines.
	add("token-all-slow", "all engines x1.8 from step 12 on", func(w *tokensim.World) {
		from(w, 12, func(r *tokensim.Run) { r.Slow(1.8, 0, 1, 2) })
	}, EngineSlow)
	add("token-one-slow", "one engine of three x6 from step 12 on", func(w *tokensim.World) {
		from(w, 12, func(r *tokensim.Run) { r.Slow(6, 2) })
	}, EngineSlow)
	add("token-lost", "two engines of three lost in step 14", func(w *tokensim.World) {
		from(w, 14, func(r *tokensim.Run) { r.Lose(1, 2) })
	}, EngineLost)
	add("token-lost-blocking", "two of three lost where prompts block", func(w *tokensim.World) {
		w.Blocking = true
		from(w, 10, func(r *tokensim.Run) { r.Lose(1, 2) })
	}, EngineLost)
	add("token-too-few", "one engine in place of three", func(w *tokensim.World) { w.Engines = 1 }, Throughput)
	add("token-too-few-deep", "the same, depth 8", func(w *tokensim.World) { w.Engines, w.Depth, w.Steps = 1, 8, 50 },
		Throughput)
	add("token-small-budget", "an iteration reads 96 tokens", func(w *tokensim.World) {
		w.Budget, w.Miss = 96, 0.6
	}, Throughput)
	add("token-few-sequences", "engines run 6 requests at once and are given 64", func(w *tokensim.World) {
		w.MaxSeqs = 3
	}, Throughput)
	add("token-kv", "the KV caches have room for some 10 requests, and preempt", func(w *tokensim.World) { w.KV = 4_000 },
		KVLimited)
	add("token-kv-shrinks", "from step 12 on they have", func(w *tokensim.World) {
		w.KV = 60_000
		from(w, 12, func(r *tokensim.Run) { r.KV = 4_000 })
	}, KVLimited)
	add("token-stalls", "each publication stops engines for 6 s from step 12 on", func(w *tokensim.World) {
		from(w, 12, func(r *tokensim.Run) { r.LoadSec = 6 })
	}, AdapterLoad)
	add("token-others", "another run keeps 60 requests in flight from step 12 on", func(w *tokensim.World) {
		from(w, 12, func(r *tokensim.Run) { r.Others = 100 })
	}, OtherWork)
	add("token-own-limit", "the run's own limit is 5 from the start", func(w *tokensim.World) { w.OwnLimit = 5 }, OwnLimit)
	add("token-own-limit-set", "an operator sets it to 4 in step 12", func(w *tokensim.World) {
		from(w, 12, func(r *tokensim.Run) {
			r.Operator("set dispatch.max_in_flight_per_engine=4 (was 0)")
			r.OwnLimit = 4
		})
	}, OwnLimit, Config)

	// Work.
	add("token-completions", "completions x2.5 from step 12 on", func(w *tokensim.World) {
		from(w, 12, func(r *tokensim.Run) { r.Output *= 2.5 })
	}, LongerCompletions)
	add("token-prompts", "prompts x5 from step 12 on", func(w *tokensim.World) {
		w.Miss = 0.5
		from(w, 12, func(r *tokensim.Run) { r.Prompt *= 5 })
	}, LongerPrompts)
	add("token-cache-off", "nothing is cached from step 12 on, where prompts are long", func(w *tokensim.World) {
		w.Prompt, w.KV = 3000, 600_000
		from(w, 12, func(r *tokensim.Run) { r.Miss = 1 })
	}, PrefixHits)
	add("token-longer-games", "games x2 from step 12 on", func(w *tokensim.World) {
		from(w, 12, func(r *tokensim.Run) { r.Turns *= 2 })
	}, LongerGames, LongerPrompts)
	add("token-longer-games-k-of-n", "the same where 3 of 5 games complete a group", func(w *tokensim.World) {
		w.Games, w.Need = 5, 3
		from(w, 12, func(r *tokensim.Run) { r.Turns *= 2.2 })
	}, LongerGames, LongerPrompts)
	add("token-agents", "three times as many requests at once from step 12 on", func(w *tokensim.World) {
		from(w, 12, func(r *tokensim.Run) { r.Agents *= 3 })
	}, LongerGames)
	add("token-more-games", "an operator doubles the games of a group in step 12", func(w *tokensim.World) {
		from(w, 12, func(r *tokensim.Run) {
			r.Operator("set group.samples=8 (was 4)")
			r.Games *= 2
		})
	}, MoreGames, Config)
	add("token-environment", "the environment takes 1.5 s more for each turn, where games are long",
		func(w *tokensim.World) {
			w.Turns, w.TurnsSigma, w.Groups, w.Depth = 10, 0.1, 2, 2
			from(w, 12, func(r *tokensim.Run) { r.Env += 1.5 })
		}, Environment)
	add("token-latency", "games of 40 turns, two groups, engines that idle", func(w *tokensim.World) {
		w.Turns, w.TurnsSigma, w.Groups, w.Output = 40, 0.05, 2, 50
	}, Latency)
	add("token-latency-one-group", "the same with one group of 2 games a step, depth 1", func(w *tokensim.World) {
		w.Turns, w.TurnsSigma, w.Groups, w.Games, w.Output, w.Depth = 45, 0.05, 1, 2, 50, 1
	}, Latency)
	add("token-straggler", "games of very unequal length from step 12 on, where engines idle", func(w *tokensim.World) {
		w.Turns, w.TurnsSigma, w.Groups, w.Games = 14, 0.05, 2, 6
		from(w, 12, func(r *tokensim.Run) { r.TurnsSigma = 1.2 })
	}, Straggler)
	add("token-places", "workers play 6 games at once from step 12 on", func(w *tokensim.World) {
		w.Places = 40
		from(w, 12, func(r *tokensim.Run) { r.Places = 6 })
	}, Workers)
	add("token-many-groups", "32 small groups a step; an engine of three lost", func(w *tokensim.World) {
		w.Groups, w.Games, w.Turns, w.Steps = 32, 2, 2.5, 30
		from(w, 10, func(r *tokensim.Run) { r.Lose(2) })
	}, EngineLost)
	add("token-one-group", "one group of 16 games a step; completions x3", func(w *tokensim.World) {
		w.Groups, w.Games, w.Steps = 1, 16, 30
		from(w, 10, func(r *tokensim.Run) { r.Output *= 3 })
	}, LongerCompletions)

	// The trainer, and between.
	add("token-train", "training x1.6 from step 12 on", func(w *tokensim.World) {
		from(w, 12, func(r *tokensim.Run) { r.Train *= 1.6 })
	}, Trainer)
	add("token-publish", "publishing takes 6 s from step 12 on", func(w *tokensim.World) {
		from(w, 12, func(r *tokensim.Run) { r.Publish = 6 })
	}, Publish)
	add("token-claim", "a batch that is there is granted 5 s later from step 12 on", func(w *tokensim.World) {
		from(w, 12, func(r *tokensim.Run) { r.Claim = 5 })
	}, Handover)
	add("token-depth", "an operator lowers the depth from 5 to 1 where games are long", func(w *tokensim.World) {
		w.Turns, w.TurnsSigma, w.Groups, w.Depth, w.Output = 30, 0.05, 2, 5, 50
		from(w, 14, func(r *tokensim.Run) {
			r.Operator("set buffer.depth=1 (was 5)")
			r.Depth = 1
		})
	}, Config, Depth)

	// Healthy.
	healthy := func(name string, make func(w *tokensim.World)) {
		add(name, "nothing; phases vary by 10 %", func(w *tokensim.World) { w.CV = 0.1; make(w) })
	}
	healthy("token-healthy", func(*tokensim.World) {})
	healthy("token-healthy-deep", func(w *tokensim.World) { w.Depth = 8 })
	healthy("token-healthy-blocking", func(w *tokensim.World) { w.Blocking = true })
	healthy("token-healthy-unequal", func(w *tokensim.World) { w.TurnsSigma, w.Games, w.Need, w.Depth = 0.9, 6, 4, 4 })
	healthy("token-healthy-slow-unfelt", func(w *tokensim.World) { // the others take what it does not
		w.Depth, w.Steps = 6, 60
		from(w, 15, func(r *tokensim.Run) { r.Slow(10, 2) })
	})
	healthy("token-healthy-long", func(w *tokensim.World) { w.Steps = 120 })
	return cases
}
