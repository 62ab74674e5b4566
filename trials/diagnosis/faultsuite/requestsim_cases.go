package faultsuite

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/recordinput"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/trials/diagnosis/requestsim"
)

type (
	world   = requestsim.World
	control = requestsim.Control
)

// RequestCases are the faults that package requestsim is given, and what a diagnosis must say of each.
func RequestCases() []Case {
	var cases []Case
	add := func(name, injected string, w func(scale int) world, want ...diagnosis.CauseName) {
		cases = append(cases, requestCase(name, injected, w, want...))
	}

	// Engines.
	add("all-engines-slow", "all engines take twice as long from step 12 on, and nobody says so", func(n int) world {
		return with(slotsWorld(n), func(c *control) { c.Slow(2, false, c.All()...) })
	}, EngineSlow)
	add("half-slow-noticed", "half of the engines take 3 times as long; the service halves what it gives them",
		func(n int) world {
			return with(slotsWorld(n), func(c *control) { c.Slow(3, true, c.Half()...) })
		}, EngineSlow)
	add("half-slow-silent", "half of the engines take 6 times as long, and nobody says so", func(n int) world {
		return with(slotsWorld(n), func(c *control) { c.Slow(6, false, c.Half()...) })
	}, EngineSlow)
	add("quarter-slow-silent", "a quarter of the engines takes 6 times as long, and nobody says so", func(n int) world {
		w := slotsWorld(n)
		w.Engine.PromptSec, w.Engine.OutputSec = 1.25*w.Engine.PromptSec, 1.25*w.Engine.OutputSec
		return with(w, func(c *control) { c.Slow(6, false, c.Last(n)...) })
	}, EngineSlow)
	add("shared-half-slow", "the same with half x3 on engines whose requests slow each other down", func(n int) world {
		return with(sharedWorld(n), func(c *control) { c.Slow(3, false, c.Half()...) })
	}, EngineSlow)
	add("shared-all-slow", "all engines x2 where requests slow each other down", func(n int) world {
		return with(sharedWorld(n), func(c *control) { c.Slow(2, false, c.All()...) })
	}, EngineSlow)
	add("split-all-slow", "all engines x2 where prompts and outputs are worked on apart", func(n int) world {
		return with(splitWorld(n), func(c *control) { c.Slow(2, false, c.All()...) })
	}, EngineSlow)
	add("latency-all-slow", "all engines x2.5 where games are long and engines idle", func(n int) world {
		return with(latencyWorld(n), func(c *control) { c.Slow(2.5, false, c.All()...) })
	}, EngineSlow)
	add("slow-deep", "half of the engines x6 behind a buffer of 5 batches", func(n int) world {
		w := with(deep(slotsWorld(n), 5), func(c *control) { c.Slow(6, false, c.Half()...) })
		w.Until = 50
		return w
	}, EngineSlow)
	add("slow-healed", "all engines x2.5 from step 8 to step 20", func(n int) world {
		w := withAt(slotsWorld(n), 8, func(c *control) { c.Slow(2.5, false, c.All()...) })
		return withAt(w, 20, func(c *control) { c.Slow(1, false, c.All()...) })
	}, EngineSlow)
	add("slow-drifting", "all engines take 4 % longer with every step from step 4 on", func(n int) world {
		w := slotsWorld(n)
		for step := 4; step < w.Until; step++ {
			factor := 1 + 0.05*float64(step-3)
			w = withAt(w, step, func(c *control) { c.Slow(factor, false, c.All()...) })
		}
		return w
	}, EngineSlow)
	add("slow-and-irrelevant-change", "all engines x2; at the same step an operator changes something else",
		func(n int) world {
			return with(slotsWorld(n), func(c *control) {
				c.Operator("set timeouts.episode=2h0m0s (was 1h0m0s)")
				c.Slow(2, false, c.All()...)
			})
		}, EngineSlow)
	add("load-stalls", "from step 12 on every publication stalls each engine for 80 s", func(n int) world {
		w := slotsWorld(n)
		w.PublishInBackground, w.MaxStaleness = true, 4
		return with(w, func(c *control) { c.AdapterLoad, c.AdapterStalls = 80, true })
	}, AdapterLoad)
	add("load-stalls-always", "every publication stalls each engine for 80 s", func(n int) world {
		w := slotsWorld(n)
		w.PublishInBackground, w.MaxStaleness, w.AdapterLoad, w.AdapterStalls = true, 4, 80, true
		return w
	}, AdapterLoad)
	add("shared-load-stalls", "the same from step 12 on where requests slow each other down", func(n int) world {
		w := sharedWorld(n)
		w.PublishInBackground, w.MaxStaleness = true, 4
		return with(w, func(c *control) { c.AdapterLoad, c.AdapterStalls = 80, true })
	}, AdapterLoad)
	add("half-lost", "half of the engines lost in step 12", func(n int) world {
		return with(slotsWorld(n), func(c *control) { c.Lose(c.Half()...) })
	}, EngineLost)
	add("shared-half-lost", "half of the engines lost where requests slow each other down", func(n int) world {
		return with(sharedWorld(n), func(c *control) { c.Lose(c.Half()...) })
	}, EngineLost)
	add("split-half-lost", "half of the engines lost where prompts and outputs are worked on apart", func(n int) world {
		return with(splitWorld(n), func(c *control) { c.Lose(c.Half()...) })
	}, EngineLost)
	add("lost-deep", "half of the engines lost behind a buffer of 5 batches", func(n int) world {
		w := with(deep(slotsWorld(n), 5), func(c *control) { c.Lose(c.Half()...) })
		w.Until = 50
		return w
	}, EngineLost)
	add("lost-and-back", "three quarters of the engines lost in step 10, back in step 16", func(n int) world {
		w := withAt(slotsWorld(n), 10, func(c *control) { c.Lose(c.Last(3 * n)...) })
		return withAt(w, 16, func(c *control) { c.Return(c.Last(3 * n)...) })
	}, EngineLost, EngineBack)
	add("lost-in-tiny-run", "half of the engines lost in step 3 of 9", func(n int) world {
		w := withAt(slotsWorld(n), 3, func(c *control) { c.Lose(c.Half()...) })
		w.Until = 9
		return w
	}, EngineLost)
	add("drained", "an operator drains half of the engines", func(n int) world {
		return with(slotsWorld(n), func(c *control) { c.Drain(c.Half()...) })
	}, ScaleDown)
	add("cold", "three quarters of the engines are ready only after 2000 s", func(n int) world {
		return changed(slotsWorld(n), func(w *world) { w.Cold, w.Warm = 2000, n })
	}, ColdEngines)
	add("cold-in-the-prefill", "they are ready after 900 s, in which the buffer is filled; the steps wait as a batch "+
		"takes the engines longer than the trainer",
		func(n int) world {
			return changed(slotsWorld(n), func(w *world) { w.Cold, w.Warm, w.Train = 900, n, 45 })
		}, Throughput)
	add("other-runs", "other runs keep half of the slots from step 12 on", func(n int) world {
		return with(slotsWorld(n), func(c *control) { c.OthersHold, c.OtherSec = 24*n, 7 })
	}, OtherWork)
	add("shared-other-runs", "other runs keep as many requests in flight as this one from step 12 on", func(n int) world {
		return with(sharedWorld(n), func(c *control) { c.OthersHold, c.OtherSec = 150*n, 2 })
	}, OtherWork)
	for depth := 2; depth <= 3; depth++ {
		add(fmt.Sprintf("processors-%d", depth), "turns of all games share two processors, the limit of the run",
			func(n int) world {
				return changed(deep(latencyWorld(n), depth), func(w *world) { w.Env, w.Processors = 2.2, 2*n })
			}, Latency, Environment, Workers, Throughput)
	}
	add("prefix-cache", "the engines' caches hold the prefixes of half of the games that are played at once",
		func(n int) world {
			return changed(sharedWorld(n), func(w *world) {
				w.CacheGames, w.Engine.PromptSec = float64(32*n), 1.6*w.Engine.PromptSec
			})
		}, Throughput, PrefixHits)
	add("kv-limited", "the engines' memory holds a third of what their slots could", func(n int) world {
		w := slotsWorld(n)
		w.Engine.KV, w.EngineRows = 4*4200, true
		return w
	}, KVLimited)
	add("kv-limited-unseen", "the same, and nothing is known of the engines one by one", func(n int) world {
		w := slotsWorld(n)
		w.Engine.KV = 4 * 4200
		return w
	}, Throughput, KVLimited)
	add("kv-shrinks", "from step 12 on the engines' KV caches have a third of the room", func(n int) world {
		w := slotsWorld(n)
		w.Engine.KV, w.EngineRows = 12*4200, true
		return with(w, func(c *control) { c.World.Engine.KV /= 3 })
	}, KVLimited)
	add("kv-preempts", "long completions overflow the engines' KV caches, which preempt", func(n int) world {
		w := slotsWorld(n)
		w.Prompt, w.Output, w.Shared, w.TokensCV = 600, 600, 0.2, 0.2
		w.Engine = requestsim.Engine{PromptSec: 0.0028, OutputSec: 0.02, PerRequest: 0.02, KV: 6 * 1000, Preempts: true}
		w.EngineRows = true
		return w
	}, KVLimited)
	add("kv-overfilled", "an operator lifts the run's own limit of 5 requests per engine, and the KV caches overflow",
		func(n int) world {
			w := slotsWorld(n)
			w.Prompt, w.Output, w.Shared, w.TokensCV, w.OwnLimit = 600, 600, 0.2, 0.2, 5
			w.Engine = requestsim.Engine{PromptSec: 0.0028, OutputSec: 0.011, PerRequest: 0.02, KV: 6 * 1000, Preempts: true}
			w.EngineRows = true
			return with(w, func(c *control) {
				c.Operator("set dispatch.max_in_flight_per_engine=0 (was 5)")
				c.OwnLimit = 0
			})
		}, Config, KVLimited)
	add("max-num-seqs", "engines run 5 requests at once, and are given 12", func(n int) world {
		w := slotsWorld(n)
		w.Engine.Sequences = 5
		return w
	}, Throughput)
	add("seed-004", "the engines need twice the trainer's time from the start", func(n int) world {
		w := slotsWorld(n)
		w.Engine.PromptSec, w.Engine.OutputSec = 2.7*w.Engine.PromptSec, 2.7*w.Engine.OutputSec
		return w
	}, Throughput)
	add("seed-004-tiny", "the same, 6 steps", func(n int) world {
		w := slotsWorld(n)
		w.Engine.PromptSec, w.Engine.OutputSec, w.Until = 2.7*w.Engine.PromptSec, 2.7*w.Engine.OutputSec, 6
		return w
	}, Throughput)
	for _, b := range []struct {
		name string
		per  float64
	}{{"1.7", 0.015}, {"3.2", 0.047}, {"7.6", 0.14}} {
		add("saturated-"+b.name, "engines with free slots are the limit: at the load of the run they are "+b.name+
			" times as slow as idle", func(n int) world {
			w := sharedWorld(n)
			slow := 1 + b.per*47
			each := 24.0 * 7 / 4 / slow * 1.5 // so that a batch takes about twice the trainer's time
			w.Engine = requestsim.Engine{PromptSec: each * 0.43 / 1200, OutputSec: each * 0.57 / 73, PerRequest: b.per}
			return w
		}, Throughput)
	}
	add("saturated-knee", "the same where 20 requests are as fast as one, and no more are", func(n int) world {
		w := sharedWorld(n)
		w.Engine = requestsim.Engine{PromptSec: 0.0085, OutputSec: 0.185, Knee: 20}
		return w
	}, Throughput)
	add("saturated-split", "the same where prompts share one processor", func(n int) world {
		w := splitWorld(n)
		w.Engine = requestsim.Engine{PromptSec: 0.00095, OutputSec: 0.03, PerRequest: 0.05, Split: true}
		return w
	}, Throughput)
	add("own-limit", "an operator sets the run's own limit of requests per engine to 5", func(n int) world {
		return with(slotsWorld(n), func(c *control) {
			c.Operator("set dispatch.max_in_flight_per_engine=5 (was 0)")
			c.OwnLimit = 5
		})
	}, OwnLimit, Config)
	add("own-limit-always", "the run's own limit of requests per engine is 5 from the start", func(n int) world {
		w := slotsWorld(n)
		w.OwnLimit = 5
		return w
	}, OwnLimit)

	// Work.
	add("longer-completions", "completions are 3 times as long from step 12 on", func(n int) world {
		return with(slotsWorld(n), func(c *control) { c.Output *= 3 })
	}, LongerCompletions)
	add("shared-longer-completions", "the same where requests slow each other down", func(n int) world {
		return with(sharedWorld(n), func(c *control) { c.Output *= 3 })
	}, LongerCompletions)
	add("completions-drift", "completions grow by 7 % of the first with every step", func(n int) world {
		w := slotsWorld(n)
		for step := 1; step < w.Until; step++ {
			w = withAt(w, step, func(c *control) { c.Output = 73 * (1 + 0.07*float64(step)) })
		}
		return w
	}, LongerCompletions)
	add("longer-prompts", "prompts are 3 times as long from step 12 on", func(n int) world {
		return with(slotsWorld(n), func(c *control) { c.Prompt *= 3 })
	}, LongerPrompts)
	add("lower-prefix-hits", "nothing of a prompt is cached from step 12 on", func(n int) world {
		return with(slotsWorld(n), func(c *control) { c.Shared = 0 })
	}, PrefixHits)
	add("shared-lower-prefix-hits", "the same where requests slow each other down", func(n int) world {
		return with(sharedWorld(n), func(c *control) { c.Shared = 0 })
	}, PrefixHits)
	add("split-lower-prefix-hits", "the same where prompts and outputs are worked on apart", func(n int) world {
		return with(splitWorld(n), func(c *control) { c.Shared = 0 })
	}, PrefixHits)
	add("longer-games", "games have twice as many turns from step 12 on", func(n int) world {
		return with(slotsWorld(n), func(c *control) { c.Turns *= 2 })
	}, LongerGames)
	add("longer-games-deep", "the same behind a buffer of 4 batches", func(n int) world {
		w := with(deep(slotsWorld(n), 4), func(c *control) { c.Turns *= 2 })
		w.Until = 46
		return w
	}, LongerGames)
	add("latency-longer-games", "the same where games are long and engines idle", func(n int) world {
		return with(latencyWorld(n), func(c *control) { c.Turns *= 2 })
	}, LongerGames)
	add("more-agents", "twice as many requests in each turn", func(n int) world {
		return with(slotsWorld(n), func(c *control) { c.Agents *= 2 })
	}, LongerGames)
	add("ref-in-rollouts", "reference log-probs move from the trainer into the rollouts, whose requests take 2.2 times "+
		"as long", func(n int) world {
		return with(slotsWorld(n), func(c *control) {
			c.Ref = 0
			c.Engine.PromptSec, c.Engine.OutputSec = 2.2*c.Engine.PromptSec, 2.2*c.Engine.OutputSec
		})
	}, RefInRollouts)
	add("more-games", "an operator doubles the games of a group", func(n int) world {
		return with(slotsWorld(n), func(c *control) {
			c.Operator("set group.samples=8 (was 4)")
			c.Games *= 2
		})
	}, MoreGames, Config)
	add("zero-variance", "half of the groups have no variance and are played again from step 12 on", func(n int) world {
		w := slotsWorld(n)
		w.ZeroVariance = runspec.DropZeroVariance
		return with(w, func(c *control) { c.NoVariance = 0.5 })
	}, MoreGames, Drops)
	add("zero-variance-always", "half of the groups have no variance and are played again", func(n int) world {
		w := slotsWorld(n)
		w.ZeroVariance, w.NoVariance = runspec.DropZeroVariance, 0.5
		return w
	}, MoreGames, Drops)
	add("straggler-group", "from step 12 on the games of one group in a batch have 3 times as many turns; depth 1",
		func(n int) world {
			w := changed(deep(latencyWorld(n), 1), func(w *world) { w.Groups, w.Turns = 8*n, 25; w.Slots = 64 })
			return with(w, func(c *control) { c.SlowGroup = 3 })
		}, Straggler)
	add("straggler-game", "from step 12 on one game of each group has 4 times as many turns", func(n int) world {
		w := changed(latencyWorld(n), func(w *world) { w.Games, w.Turns = 6, 30; w.Slots = 64 })
		return with(w, func(c *control) { c.SlowGame = 4 })
	}, Straggler)
	add("environment", "the environment takes 8 s more for a turn, where games are long", func(n int) world {
		return with(latencyWorld(n), func(c *control) { c.Env += 8 })
	}, Environment)
	add("environment-workers", "the environment takes 8 s more for a turn, where workers have few places",
		func(n int) world {
			return with(workersWorld(n), func(c *control) { c.Env += 8 })
		}, Environment)
	add("environment-and-idle-engine-lost", "the same where games are long, and an engine that was idle is lost",
		func(n int) world {
			return with(latencyWorld(n), func(c *control) { c.Env += 8; c.Lose(c.Last(n)...) })
		}, Environment)
	add("latency", "a batch takes more than depth steps, from the start", func(n int) world {
		return changed(latencyWorld(n), func(w *world) { w.Turns *= 2.2 })
	}, Latency)
	add("latency-shared", "the same on engines whose requests slow each other down a little", func(n int) world {
		return changed(latencyWorld(n), func(w *world) {
			w.Turns *= 2.2
			w.Slots = 512
			w.Engine.PerRequest = 0.005
		})
	}, Latency)

	// Workers, bounds, handover.
	add("few-places", "workers have half of the places that the games need", func(n int) world {
		return changed(workersWorld(n), func(w *world) { w.Places = 7 * n })
	}, Workers)
	add("worker-lost", "workers lose half of their places in step 12", func(n int) world {
		return with(workersWorld(n), func(c *control) { c.Places /= 2 })
	}, Workers)
	add("max-staleness", "max_staleness 1 admits one batch of the four that the depth asks for", func(n int) world {
		return changed(latencyWorld(n), func(w *world) { w.Depth, w.MaxStaleness, w.Turns = 4, 1, 60 })
	}, Throttle)
	add("max-bytes", "max_bytes has room for one batch of the four that the depth asks for", func(n int) world {
		return changed(latencyWorld(n), func(w *world) {
			w.Depth, w.MaxStaleness, w.Turns = 4, 4, 60
			w.MaxBytes = int64(float64(w.Games*w.Agents)*w.Turns*(w.Prompt+w.Output)) * int64(w.Groups)
		})
	}, Throttle)
	add("depth-lowered", "an operator lowers the depth from 4 to 1, where games are long", func(n int) world {
		w := changed(deep(latencyWorld(n), 4), func(w *world) { w.Turns *= 1.5 })
		return with(w, func(c *control) {
			c.Operator("set buffer.depth=1 (was 4)")
			c.Depth = 1
		})
	}, Config, Depth)
	add("operator-early", "an operator trebles max_tokens 3 steps before the buffer of 4 batches lets it be felt",
		func(n int) world {
			w := with(deep(slotsWorld(n), 4), func(c *control) {
				c.Operator("set sampling.max_tokens=219 (was 73)")
				c.Output *= 3
			})
			w.Until = 46
			return w
		}, Config, LongerCompletions)
	add("claim", "a batch that is there is granted 60 s later, from step 12 on", func(n int) world {
		return with(slotsWorld(n), func(c *control) { c.Claim = 60 })
	}, Handover)
	add("deliver", "a batch takes 60 s from the grant to the trainer, from step 12 on", func(n int) world {
		return with(slotsWorld(n), func(c *control) { c.Deliver = 60 })
	}, Handover)

	// The trainer.
	add("train", "training takes 1.7 times as long from step 12 on", func(n int) world {
		return with(slotsWorld(n), func(c *control) { c.Train *= 1.7 })
	}, Trainer)
	add("load", "loading takes 60 s from step 12 on", func(n int) world {
		return with(slotsWorld(n), func(c *control) { c.Load = 60 })
	}, Trainer)
	add("ref", "reference log-probs take 2.5 times as long from step 12 on", func(n int) world {
		return with(slotsWorld(n), func(c *control) { c.Ref *= 2.5 })
	}, RefLogprobs)
	add("publish", "publishing takes 80 s from step 12 on", func(n int) world {
		return with(slotsWorld(n), func(c *control) { c.Publish = 80 })
	}, Publish)
	add("publish-loads", "engines load an adapter in 80 s from step 12 on, and the trainer waits for them",
		func(n int) world {
			return with(slotsWorld(n), func(c *control) { c.AdapterLoad = 80 })
		}, Publish, AdapterLoad)
	add("train-drift", "training takes 2 % longer with every step", func(n int) world {
		return changed(slotsWorld(n), func(w *world) { w.TrainDrift = 0.02 })
	}, Trainer)
	add("checkpoint", "every fifth step writes a checkpoint for 120 s", func(n int) world {
		return changed(slotsWorld(n), func(w *world) { w.Checkpoint, w.CheckpointEvery = 120, 5 })
	}, Checkpoint)
	add("checkpoint-unnamed", "the same, and the trainer does not say what it is", func(n int) world {
		return changed(slotsWorld(n), func(w *world) { w.Checkpoint, w.CheckpointEvery, w.CheckpointUnnamed = 120, 5, true })
	}, Checkpoint, Periodic)
	add("single-step", "one step trains for 300 s longer", func(n int) world {
		w := with(slotsWorld(n), func(c *control) { c.Train += 300 })
		w.Until = 30
		return withAt(w, faultStep+1, func(c *control) { c.Train -= 300 })
	}, SingleStep)
	add("train-and-idle-engine-lost", "training takes 1.7 times as long, and an engine that was idle is lost",
		func(n int) world {
			return with(latencyWorld(n), func(c *control) { c.Train *= 1.9; c.Lose(c.Last(n)...) })
		}, Trainer)
	add("completions-and-lost", "completions are twice as long, and half of the engines are lost 8 steps later",
		func(n int) world {
			w := withAt(slotsWorld(n), 10, func(c *control) { c.Output *= 2.2 })
			return withAt(w, 20, func(c *control) { c.Lose(c.Half()...) })
		}, EngineLost, LongerCompletions)

	// Healthy runs, with more noise than most have.
	healthy := func(name string, w func(scale int) world) {
		const injected = "nothing; every phase varies by 10 %, each like the one before"
		cases = append(cases, requestCase(name, injected, func(n int) world {
			return changed(w(n), func(w *world) { w.Noise = requestsim.Noise{CV: 0.1, Memory: 0.5} })
		}))
	}
	healthy("healthy", slotsWorld)
	healthy("healthy-shared", sharedWorld)
	healthy("healthy-split", splitWorld)
	healthy("healthy-latency", latencyWorld)
	healthy("healthy-workers", workersWorld)
	healthy("healthy-deep", func(n int) world { return deep(slotsWorld(n), 5) })
	healthy("healthy-long", func(n int) world { return changed(slotsWorld(n), func(w *world) { w.Until = 150 }) })
	healthy("healthy-tiny", func(n int) world { return changed(slotsWorld(n), func(w *world) { w.Until = 8 }) })
	healthy("healthy-fleet-noise", func(n int) world {
		return changed(slotsWorld(n), func(w *world) { w.FleetNoise = requestsim.Noise{CV: 0.1, Memory: 0.5} })
	})
	healthy("healthy-idle-engine-lost", func(n int) world {
		return with(latencyWorld(n), func(c *control) { c.Lose(c.Last(n)...) })
	})
	return cases
}

func requestCase(name, injected string, make func(scale int) requestsim.World, want ...diagnosis.CauseName) Case {
	return Case{Name: name, Injected: injected, Want: want, Play: func(scale int, seed uint64) (Played, error) {
		w := make(scale)
		w.Seed = seed
		if w.EngineRows = w.EngineRows || seed%2 == 0; !w.EngineRows {
			w.SampleEvery = 0
		}
		recorded := requestsim.Play(w)
		in, err := recordinput.Of(recorded.Record)
		if err != nil {
			return Played{}, err
		}
		return Played{Record: recorded.Record, Input: in, StepSec: recorded.Steady(steadyTail),
			With: func(c Change) (float64, bool) {
				w := make(scale)
				w.Seed = seed
				w.Faults = slices.Clone(w.Faults)
				w.Extra += c.Engines
				w.Instead.Depth, w.Instead.MaxStaleness = c.Depth, c.MaxStaleness
				w.SampleEvery = 0
				w.Until += settling
				return requestsim.Play(w).Steady(settling / 2), true
			}}, nil
	}}
}
