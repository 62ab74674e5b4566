package trial

import (
	"fmt"
	"math"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// Drift is how the length of the games changes in the course of a run.
type Drift string

// The drifts.
const (
	Steady  Drift = "steady"
	Grows   Drift = "grows"
	Shrinks Drift = "shrinks"
	Jumps   Drift = "jumps"
	Waves   Drift = "waves"
)

// Workload is one random run.
type Workload struct {
	Seed  uint64
	Setup sim.Setup
	Drift Drift
	// Needs is how many engines the run is about drawn to need in the mean, and Peak where it needs most.
	Needs, Peak float64
	ColdStart   time.Duration // of an engine, in the mean
	MeanLife    time.Duration // of an engine, until it is lost; 0: none is
	Latency     bool          // the games wait for their environment most of the time
	factors     []float64     // of the games' length, by step
}

// What all workloads have in common. Engines get few requests at once, and batches are small, so that a workload is
// simulated within a second.
const (
	steps     = 120
	slots     = 10    // requests that an engine gets at once
	Most      = 12    // engines of a fleet
	tokenRate = 700.0 // about what an engine generates with full slots, tokens/s
)

// Draw draws the run of a seed.
func Draw(seed uint64) Workload {
	r := virtualtime.NewRandom(seed, "workload")
	w := Workload{Seed: seed}
	w.ColdStart = seconds(between(r, 30, 300))
	compute := between(r, 40, 200)
	w.Needs = between(r, 0.5, 7)
	w.drawDrift(r)
	if r.Float64() < 0.7 {
		w.MeanLife = seconds(between(r, 2, 12) * 3600)
	}
	depth := 2 + r.IntN(3)
	groups, samples := 4+r.IntN(5), 2+r.IntN(3)
	agents, phases := 1+float64(r.IntN(3)), 3+float64(r.IntN(4))
	requests := float64(groups*samples) * agents * phases
	output := min(max(w.Needs*compute*tokenRate/requests, 60), 4000)
	env := between(r, 0.02, 1)
	if w.Latency = r.Float64() < 0.15; w.Latency {
		// The games take longer than their share of the buffer, whatever the engines do.
		env = compute * float64(depth) * (1.2 + 0.8*r.Float64()) / phases
		output = min(output, 0.5*compute*tokenRate*float64(w.Needs)/requests)
	}
	s := &w.Setup
	s.Spec = spec.Default()
	s.Name = rollout.RunName(fmt.Sprintf("trial-%d", seed))
	s.Model, s.Steps, s.Seed = "model", steps, int64(seed)
	s.Group = runspec.GroupSpec{Samples: samples, MinSamples: samples}
	s.Buffer.Depth, s.Buffer.GroupsPerStep, s.Buffer.MaxStaleness = depth, groups, int64(depth)+2
	s.Timeouts = runspec.Timeouts{}
	s.Fleet = sim.Fleet{Engines: 1, Profile: "a100-80gb", TimeFactor: 1, MaxNumSeqs: slots, MaxInFlight: slots}
	s.Trainer = sim.Trainer{Load: dur(0.03 * compute), RefLogprobs: dur(0.17 * compute), Train: dur(0.77 * compute),
		Publish: dur(0.03 * compute), Variation: 0.02 + 0.13*r.Float64()}
	s.Workload.Distribution = &sim.GameDistribution{
		Phases: workload.Spread{Mean: phases, Spread: 0.3 * r.Float64()}, Agents: workload.Spread{Mean: agents},
		Prompt: workload.Spread{Mean: between(r, 200, 2000), Spread: 0.2},
		Output: workload.Spread{Mean: output, Spread: 0.1 + 0.5*r.Float64()},
		Env:    workload.Spread{Mean: env, Spread: 0.2},
	}
	s.Overheads = sim.Overheads{Call: dur(0.005), Phase: dur(0.005), Launch: dur(0.05), Commit: dur(0.02),
		Claim: dur(0.01)}
	return w
}

// drawDrift draws how the length of the games changes, about a mean of 1.
func (w *Workload) drawDrift(r *virtualtime.Random) {
	w.Drift = []Drift{Steady, Grows, Shrinks, Jumps, Waves}[r.IntN(5)]
	extent, at, period := between(r, 1.3, 4), 0.2+0.6*r.Float64(), 0.3+0.7*r.Float64()
	up := r.Float64() < 0.5
	w.factors = make([]float64, steps)
	sum := 0.0
	for i := range w.factors {
		x := float64(i) / steps
		f := 1.0
		switch w.Drift {
		case Steady:
		case Grows:
			f = math.Pow(extent, x)
		case Shrinks:
			f = math.Pow(extent, -x)
		case Jumps:
			if (x >= at) == up {
				f = extent
			}
		case Waves:
			f = math.Pow(extent, 0.5+0.5*math.Sin(2*math.Pi*x/period))
		}
		w.factors[i] = f
		sum += f
	}
	for i := range w.factors {
		w.factors[i] *= steps / sum
		w.Peak = max(w.Peak, w.factors[i])
	}
	w.Needs = min(w.Needs, 0.85*Most/w.Peak)
	w.Peak *= w.Needs
}

// between is log-uniform.
func between(r *virtualtime.Random, low, high float64) float64 {
	return low * math.Pow(high/low, r.Float64())
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func dur(s float64) rollout.Duration { return rollout.Duration(seconds(s)) }

// games are the workload's: drawn from its distribution, longer or shorter by the step for which they are launched.
type games struct {
	of   *Workload
	each map[float64]*workload.DistributedGames
}

var _ workload.Games = (*games)(nil)

func (w *Workload) games() *games {
	return &games{of: w, each: map[float64]*workload.DistributedGames{}}
}

func (g *games) at(seq rollout.GroupSeq) *workload.DistributedGames {
	step := min(int(seq)/g.of.Setup.Buffer.GroupsPerStep, steps-1)
	factor := g.of.factors[step]
	if g.each[factor] == nil {
		d := *g.of.Setup.Workload.Distribution
		d.Phases.Mean *= factor
		g.each[factor] = workload.NewDistributedGames(d, g.of.Seed)
	}
	return g.each[factor]
}

// Game is the game of a reference.
func (g *games) Game(ref rollout.EpisodeRef) workload.Game { return g.at(ref.Seq).Game(ref) }

// ZeroVariance reports whether a group's rewards are equal.
func (g *games) ZeroVariance(ref rollout.GroupRef) bool { return g.at(ref.Seq).ZeroVariance(ref) }

// coldStart and life are of an engine, by its number: the same whatever the policy.
func (w *Workload) coldStart(no int) time.Duration {
	r := virtualtime.NewRandom(w.Seed^uint64(no+1)*0x9E3779B97F4A7C15, "cold start")
	return time.Duration(float64(w.ColdStart) * (0.8 + 0.4*r.Float64()))
}

func (w *Workload) life(no int) time.Duration {
	if w.MeanLife == 0 {
		return 0
	}
	r := virtualtime.NewRandom(w.Seed^uint64(no+1)*0x9E3779B97F4A7C15, "life")
	return time.Duration(float64(w.MeanLife) * r.Exponential())
}

// The seeds of the workloads: those that the policies may have been looked at with, and those that were held out.
const (
	FirstSeed    = 1
	FirstHeldOut = 3001
)
