package faultsuite

import (
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

func simWorkCases() []Case {
	var cases []Case
	for _, base := range bases {
		add := func(name, injected string, make func(n int) simRun, want ...causeName) {
			cases = append(cases, simCase(base.name+"-"+name, injected, make, want...))
		}
		add("longer-completions", "completions are 3.5 times as long", func(n int) simRun {
			return base.of(n).hit(games(func(d *workload.Distribution) { d.Output.Mean *= 3.5 }))
		}, LongerCompletions)
		add("longer-completions-deep", "the same behind a buffer of 4 batches", func(n int) simRun {
			return base.of(n).depth(4).until(46).hit(games(func(d *workload.Distribution) { d.Output.Mean *= 3.5 }))
		}, LongerCompletions)
		add("completions-drift", "completions grow by 6 % of the first with every step", func(n int) simRun {
			r := base.of(n)
			for step := range rollout.Step(playedSteps) {
				r = r.at(step, games(func(d *workload.Distribution) { d.Output.Mean = 250 * (1 + 0.06*float64(step)) }))
			}
			return r
		}, LongerCompletions)
		add("longer-prompts", "prompts are 4 times as long, and as much of them is cached", func(n int) simRun {
			return base.of(n).hit(games(func(d *workload.Distribution) { scalePrompts(d, 4) }))
		}, LongerPrompts)
		add("lower-prefix-hits", "prompts have nothing in common any more, and engines little to spare", func(n int) simRun {
			r := base.of(n).set(func(s *sim.Setup) { s.Fleet.TimeFactor = 1.2; scalePrompts(s.Workload.Distribution, 1.6) })
			return r.hit(games(func(d *workload.Distribution) { d.Shared = workload.SharedTokens{} }))
		}, PrefixHits)
		add("longer-games", "games have twice as many phases", func(n int) simRun {
			return base.of(n).hit(games(func(d *workload.Distribution) { d.Phases.Mean *= 2 }))
		}, LongerGames)
		add("longer-games-deep", "the same behind a buffer of 4 batches", func(n int) simRun {
			return base.of(n).depth(4).until(46).hit(games(func(d *workload.Distribution) { d.Phases.Mean *= 2 }))
		}, LongerGames)
		add("more-agents", "twice as many agents decide in a phase", func(n int) simRun {
			return base.of(n).hit(games(func(d *workload.Distribution) { d.Agents.Mean *= 2 }))
		}, LongerGames)
		add("more-games", "an operator doubles the games of a group", func(n int) simRun {
			return base.of(n).hit(func(c *sim.Control) {
				c.Operator("set group.samples=8 (was 4)", func(s *runspec.Spec) { s.Group.Samples, s.Group.MinSamples = 8, 8 })
			})
		}, MoreGames, Config)
		add("refills", "half of the groups have no variance and are played again", func(n int) simRun {
			r := base.of(n).set(func(s *sim.Setup) { s.Group.ZeroVariance = runspec.DropZeroVariance })
			return r.hit(games(func(d *workload.Distribution) { d.ZeroVariance = 0.55 }))
		}, MoreGames, Drops)
		add("refills-always", "the same from the start", func(n int) simRun {
			return base.of(n).set(func(s *sim.Setup) {
				s.Group.ZeroVariance = runspec.DropZeroVariance
				s.Workload.Distribution.ZeroVariance = 0.55
			})
		}, MoreGames, Drops)
		add("ref-in-rollouts", "reference log-probs move into the rollouts, which take 2.2 times as long",
			func(n int) simRun {
				return base.of(n).hit(func(c *sim.Control) {
					c.Setup().Trainer.RefLogprobs = 0
					c.Slow(2.2, false, c.All()...)
				})
			}, RefInRollouts)
	}
	return append(cases,
		simCase("long-longer-games", "games have twice as many phases, where they are long", func(n int) simRun {
			return long(n).hit(games(func(d *workload.Distribution) { d.Phases.Mean *= 2 }))
		}, LongerGames),
		simCase("long-longer-completions", "completions are 3.5 times as long, where games are long", func(n int) simRun {
			return long(n).hit(games(func(d *workload.Distribution) { d.Output.Mean *= 3.5 }))
		}, LongerCompletions),
		simCase("long-environment", "the environment takes 6 s more for a phase, where games are long", func(n int) simRun {
			return long(n).hit(games(func(d *workload.Distribution) { d.Env.Mean += 6 }))
		}, Environment),
		simCase("places-environment", "the environment takes 8 s more for a phase, where workers have few places",
			func(n int) simRun {
				return places(n).hit(games(func(d *workload.Distribution) { d.Env.Mean += 12 }))
			}, Environment),
		simCase("straggler-games", "one game in six has 3.5 times as many phases, where games are long", func(n int) simRun {
			return long(n).set(func(s *sim.Setup) { s.Group.Samples, s.Group.MinSamples = 6, 6 }).
				hit(games(func(d *workload.Distribution) { d.Stragglers, d.StragglerFactor = 1.0/6, 3.5 }))
		}, Straggler),
		simCase("straggler-games-short", "one game in 24 has 8 times as many phases; depth 1, engines with room",
			func(n int) simRun {
				r := places(n).depth(1).set(func(s *sim.Setup) { s.Overheads.Slots = 0 })
				return r.hit(games(func(d *workload.Distribution) { d.Stragglers, d.StragglerFactor = 1.0/24, 9 }))
			}, Straggler),
		simCase("latency", "a batch takes longer than depth steps, from the start", func(n int) simRun {
			return long(n).set(func(s *sim.Setup) { s.Workload.Distribution.Phases.Mean *= 2 })
		}, Latency),
		simCase("latency-depth-1", "the same with depth 1", func(n int) simRun {
			return long(n).depth(1)
		}, Latency),
	)
}

// scalePrompts makes prompts longer, with as large a share of them in common.
func scalePrompts(d *workload.Distribution, by float64) {
	d.Prompt.Mean *= by
	of := func(n int) int { return int(by * float64(n)) }
	d.Shared = workload.SharedTokens{System: of(d.Shared.System), Group: of(d.Shared.Group), Game: of(d.Shared.Game)}
}
