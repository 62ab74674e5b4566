package faultsuite

import (
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

func simBoundCases() []Case {
	return []Case{
		simCase("few-places", "workers have half of the places that the games need", func(n int) simRun {
			return places(n).set(func(s *sim.Setup) { s.Overheads.Slots = 9 * n })
		}, Workers),
		simCase("worker-lost", "workers lose two thirds of their places", func(n int) simRun {
			return places(n).hit(func(c *sim.Control) { c.Places(8 * n) })
		}, Workers),
		simCase("worker-lost-deep", "the same behind a buffer of 4 batches", func(n int) simRun {
			return places(n).depth(4).until(46).hit(func(c *sim.Control) { c.Places(8 * n) })
		}, Workers),
		simCase("own-limit", "an operator limits the run to 4 requests per engine", func(n int) simRun {
			return slots(n).hit(func(c *sim.Control) {
				c.Operator("set dispatch.max_in_flight_per_engine=4 (was 0)",
					func(s *runspec.Spec) { s.Dispatch.MaxInFlightPerEngine = 4 })
			})
		}, OwnLimit, Config),
		simCase("own-limit-always", "the run limits itself to 4 requests per engine", func(n int) simRun {
			return slots(n).set(func(s *sim.Setup) { s.Dispatch.MaxInFlightPerEngine = 4 })
		}, OwnLimit),
		simCase("own-limit-filled", "the run limits itself to 4 requests per engine, which could take 256",
			func(n int) simRun {
				return filled(n).set(func(s *sim.Setup) { s.Dispatch.MaxInFlightPerEngine = 4 })
			}, OwnLimit),
		simCase("max-staleness", "max_staleness 1 admits one batch of the four that the depth asks for", func(n int) simRun {
			return long(n).set(func(s *sim.Setup) { s.Buffer.Depth, s.Buffer.MaxStaleness = 4, 1 })
		}, Throttle),
		simCase("depth-lowered", "an operator lowers the depth from 4 to 1, where games are long", func(n int) simRun {
			return long(n).depth(4).hit(func(c *sim.Control) {
				c.Operator("set buffer.depth=1 (was 4)", func(s *runspec.Spec) { s.Buffer.Depth = 1 })
			})
		}, Config, Depth),
		simCase("handover", "a batch that is there reaches the trainer 60 s later", func(n int) simRun {
			return slots(n).hit(func(c *sim.Control) { c.Handover(0, seconds(60).Std()) })
		}, Handover),
		simCase("handover-always", "the same from the start", func(n int) simRun {
			return slots(n).at(1, func(c *sim.Control) { c.Handover(0, seconds(60).Std()) })
		}, Handover),
		simCase("handover-filled", "a batch that is there is granted 50 s later, on engines with room", func(n int) simRun {
			return filled(n).hit(func(c *sim.Control) { c.Handover(seconds(50).Std(), 0) })
		}, Handover),
	}
}

func simTrainerCases() []Case {
	trainer := func(change func(*sim.Trainer)) func(*sim.Control) {
		return func(c *sim.Control) { change(&c.Setup().Trainer) }
	}
	var cases []Case
	for _, base := range bases {
		add := func(name, injected string, make func(n int) simRun, want ...causeName) {
			cases = append(cases, simCase(base.name+"-"+name, injected, make, want...))
		}
		add("train", "training takes 1.8 times as long", func(n int) simRun {
			return base.of(n).hit(trainer(func(t *sim.Trainer) { t.Train = longer(t.Train, 1.8) }))
		}, Trainer)
		add("ref", "reference log-probs take 3 times as long", func(n int) simRun {
			return base.of(n).hit(trainer(func(t *sim.Trainer) { t.RefLogprobs = longer(t.RefLogprobs, 3) }))
		}, RefLogprobs)
		add("load", "loading takes 50 s", func(n int) simRun {
			return base.of(n).hit(trainer(func(t *sim.Trainer) { t.Load = seconds(50) }))
		}, Trainer)
		add("publish", "publishing takes 60 s", func(n int) simRun {
			return base.of(n).hit(trainer(func(t *sim.Trainer) { t.Publish = seconds(60) }))
		}, Publish)
		add("checkpoint", "every fifth step writes a checkpoint for 100 s", func(n int) simRun {
			return base.of(n).set(func(s *sim.Setup) { s.Trainer.Checkpoint, s.Trainer.Every = seconds(100), 5 })
		}, Checkpoint)
		add("single-step", "one step trains for 250 s longer", func(n int) simRun {
			r := base.of(n).hit(trainer(func(t *sim.Trainer) { t.Train += seconds(250) }))
			return r.at(faultStep+1, trainer(func(t *sim.Trainer) { t.Train -= seconds(250) }))
		}, SingleStep)
		add("train-drifts", "training takes 2 % of the first time longer with every step", func(n int) simRun {
			r := base.of(n)
			train := r.Trainer.Train
			for step := range rollout.Step(playedSteps) {
				r = r.at(step, trainer(func(t *sim.Trainer) { t.Train = longer(train, 1+0.025*float64(step)) }))
			}
			return r
		}, Trainer)
	}
	return cases
}

func simMixedCases() []Case {
	return []Case{
		simCase("train-and-idle-lost", "training takes 1.8 times as long, and an engine that was idle is lost",
			func(n int) simRun {
				r := long(n)
				return r.hit(func(c *sim.Control) {
					c.Setup().Trainer.Train = longer(c.Setup().Trainer.Train, 1.8)
					c.Lose(r.lastEngines(n)...)
				})
			}, Trainer),
		simCase("environment-and-idle-lost", "the environment takes 6 s more, and an engine that was idle is lost",
			func(n int) simRun {
				r := long(n)
				return r.hit(func(c *sim.Control) {
					c.Games(func(d *sim.GameDistribution) { d.Env.Mean += 6 })
					c.Lose(r.lastEngines(n)...)
				})
			}, Environment),
		simCase("completions-then-lost", "completions twice as long, and half of the engines lost 8 steps later",
			func(n int) simRun {
				r := slots(n).at(10, games(func(d *workload.Distribution) { d.Output.Mean *= 2.2 }))
				return r.at(20, func(c *sim.Control) { c.Lose(r.half()...) })
			}, EngineLost, LongerCompletions),
		simCase("slow-and-irrelevant-change", "all engines 2.2 times as long; an operator changes a timeout",
			func(n int) simRun {
				return slots(n).hit(func(c *sim.Control) {
					c.Operator("set timeouts.heartbeat=2m0s (was 1m0s)",
						func(s *runspec.Spec) { s.Timeouts.Heartbeat = seconds(120) })
					c.Slow(2.2, false, c.All()...)
				})
			}, EngineSlow),
		simCase("lost-and-irrelevant-train", "half of the engines lost; training varies", func(n int) simRun {
			r := slots(n)
			return r.noisy(0.1, 0.5, playedSteps).hit(func(c *sim.Control) { c.Lose(r.half()...) })
		}, EngineLost),
		simCase("noisy-all-slow", "all engines 2.4 times as long; training varies", func(n int) simRun {
			return slots(n).noisy(0.1, 0.5, playedSteps).hit(func(c *sim.Control) { c.Slow(2.4, false, c.All()...) })
		}, EngineSlow),
		simCase("noisy-longer-games", "games have twice as many phases; training varies", func(n int) simRun {
			return slots(n).noisy(0.1, 0.5, playedSteps).
				hit(games(func(d *workload.Distribution) { d.Phases.Mean *= 2 }))
		}, LongerGames),
	}
}
