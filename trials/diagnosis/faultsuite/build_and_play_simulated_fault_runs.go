package faultsuite

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// simRun is a run to be played by package sim.
type simRun struct {
	sim.Setup
	steps   int // played; 0: playedSteps
	changes []sim.Change
}

const playedSteps = 36

// at adds what happens at a step.
func (r simRun) at(step rollout.Step, do func(*sim.Control)) simRun {
	r.changes = append(slices.Clone(r.changes), sim.Change{Step: step, Do: do})
	return r
}

// hit adds what happens at faultStep.
func (r simRun) hit(do func(*sim.Control)) simRun { return r.at(faultStep, do) }

func (r simRun) until(steps int) simRun {
	r.steps = steps
	return r
}

// set changes the setup.
func (r simRun) set(change func(*sim.Setup)) simRun {
	if d := r.Workload.Distribution; d != nil {
		own := *d
		r.Workload.Distribution = &own
	}
	change(&r.Setup)
	return r
}

func (r simRun) depth(n int) simRun {
	return r.set(func(s *sim.Setup) { s.Buffer.Depth, s.Buffer.MaxStaleness = n, int64(n) })
}

// lastEngines is the numbers of the last n of the run's own engines.
func (r simRun) lastEngines(n int) []int {
	var out []int
	for i := r.Fleet.Engines - n; i < r.Fleet.Engines; i++ {
		out = append(out, i)
	}
	return out
}

func (r simRun) half() []int { return r.lastEngines(r.Fleet.Engines / 2) }

// play plays the run and, if a change is wanted, with it: engines from the start, the rest as an operator makes it.
func (r simRun) play(seed uint64, c Change, steps int) (sim.Result, error) {
	r.Seed = int64(seed)
	r.Fleet.Engines += c.Engines
	if c.Depth > 0 || c.MaxStaleness > 0 {
		r = r.at(faultStep+1, func(run *sim.Control) {
			run.Operator("set", func(s *runspec.Spec) {
				if c.Depth > 0 {
					s.Buffer.Depth = c.Depth
				}
				s.Buffer.MaxStaleness = max(s.Buffer.MaxStaleness, int64(c.MaxStaleness))
			})
		})
	}
	return sim.Run(context.Background(), r.Setup, sim.Options{MaxSteps: steps, Changes: r.changes})
}

func steadyOf(records []steprecord.StepRecord, n int) float64 {
	sum := 0.0
	for _, s := range records[max(0, len(records)-n):] {
		sum += s.StepSec()
	}
	return sum / float64(min(n, len(records)))
}

func simCase(name, injected string, make func(scale int) simRun, want ...diagnosis.CauseName) Case {
	return Case{Name: name, Injected: injected, Want: want, Play: func(scale int, seed uint64) (Played, error) {
		r := make(scale)
		steps := r.steps
		if steps == 0 {
			steps = playedSteps
		}
		played, err := r.play(seed, Change{}, steps)
		if err != nil {
			return Played{}, fmt.Errorf("simulate: %w", err)
		}
		return Played{Input: played.Input, StepSec: steadyOf(played.Input.Records, steadyTail),
			With: func(c Change) (float64, bool) {
				other, err := r.play(seed, c, steps+settling)
				return steadyOf(other.Input.Records, settling/2), err == nil
			}}, nil
	}}
}

// noisy makes every phase of the trainer vary by cv from step to step, each time remembering so much of the last.
func (r simRun) noisy(cv, memory float64, steps int) simRun {
	t := r.Trainer
	sigma, last := math.Sqrt(math.Log(1+cv*cv)), 0.0
	for step := range steps + settling {
		r = r.at(rollout.Step(step), func(c *sim.Control) {
			if step == 0 {
				last = 0
			}
			rng := rand.New(rand.NewPCG(uint64(c.Setup().Seed), uint64(step)))
			last = memory*last + math.Sqrt(1-memory*memory)*rng.NormFloat64()
			f := math.Exp(sigma*last - sigma*sigma/2)
			now := &c.Setup().Trainer
			now.Load, now.RefLogprobs = rollout.Duration(f*float64(t.Load)), rollout.Duration(f*float64(t.RefLogprobs))
			now.Train, now.Publish = rollout.Duration(f*float64(t.Train)), rollout.Duration(f*float64(t.Publish))
		})
	}
	return r
}

// longer multiplies a duration.
func longer(d rollout.Duration, by float64) rollout.Duration {
	return rollout.Duration(by * float64(d))
}

func slots(n int) simRun  { return simRun{Setup: setup(n)} }
func filled(n int) simRun { return simRun{Setup: filledSetup(n)} }
func long(n int) simRun   { return simRun{Setup: longSetup(n)} }
func places(n int) simRun { return simRun{Setup: placesSetup(n)} }

// games changes the games that groups play.
func games(change func(*workload.Distribution)) func(*sim.Control) {
	return func(c *sim.Control) { c.Games(func(d *sim.GameDistribution) { change(d) }) }
}

// SimCases are the faults that package sim is given.
func SimCases() []Case {
	return slices.Concat(simEngineCases(), simWorkCases(), simBoundCases(), simTrainerCases(), simMixedCases(),
		simHealthy())
}
