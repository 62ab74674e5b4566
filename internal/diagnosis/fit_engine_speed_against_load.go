package diagnosis

import (
	"fmt"

	"gonum.org/v1/gonum/floats"

	"github.com/millrace/millrace/internal/diagnosis/changepoint"
	"github.com/millrace/millrace/internal/engine/capacity"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// The ways in which the engines' load and speed are seen.
const (
	byWindows = iota // the steps' windows: the fleet's tokens per second against the requests in flight
	byEngines        // the engines' own counters, by load
)

// engineSpeed is how fast engines are at a load, as far as their counters tell.
type engineSpeed struct {
	capacity.Fit
	inFlight  *rateOverTime // requests at an engine, in the windows of the steps
	sampled   *rateOverTime // 1 in these windows
	usualLoad float64
}

// speedOf fits the engines' curve to all that the records show of them, whichever steps are asked about.
func speedOf(asked *measurements) engineSpeed {
	m := *asked
	m.all = m.recorded
	s := engineSpeed{usualLoad: m.fleet.inFlight / max(1, m.fleet.engines)}
	var inFlight, sampled []stretch
	for i := range m.all {
		if v := m.all[i].view(); v.Fleet.Engines > 0 {
			from := v.GrantedAt.Add(-seconds(v.Fleet.WindowSec))
			inFlight = append(inFlight, stretch{from, v.GrantedAt, v.Fleet.InFlight})
			sampled = append(sampled, stretch{from, v.GrantedAt, 1})
		}
	}
	s.inFlight, s.sampled = integrated(inFlight), integrated(sampled)
	s.Fit = capacity.Fitted(byCounters(&m, shiftsOfSpeed(&m)), s.usualLoad)
	return s
}

// load is the load that a group met; where no engine was sampled meanwhile, the usual one.
func (s *engineSpeed) load(g *steprecord.GroupView) float64 {
	from, to := g.Times.StartedAt, g.Times.ReadyAt
	if sec := s.sampled.in(from, to); sec > 0 {
		return s.inFlight.in(from, to) / sec
	}
	return s.usualLoad
}

// work is what an engine did in some time at one load.
type work struct {
	engine, stretch    int // stretches of steps differ in speed, and so do engines
	step               rollout.Step
	inFlight           float64
	input, output, sec float64 // tokens, and the time that they took
}

// tokens are those of prompts and of completions.
type tokens struct{ input, output float64 }

func tokensOf(u rollout.Usage) tokens { return tokens{float64(u.InputTokens), float64(u.OutputTokens)} }

// shareOf is a number of tokens as a share of others: prompts and completions count alike.
func (t tokens) shareOf(all tokens) float64 {
	sum, kinds := 0.0, 0.0
	if all.input > 0 {
		sum, kinds = sum+t.input/all.input, kinds+1
	}
	if all.output > 0 {
		sum, kinds = sum+t.output/all.output, kinds+1
	}
	return sum / max(1, kinds)
}

// mixNoise is the smallest assumed error of tokens per second.
const mixNoise = 0.005

// observations are times for a share of all that was done, by load.
func observations(source int, done []work) []capacity.Observation {
	var all tokens
	for _, w := range done {
		all.input, all.output = all.input+w.input, all.output+w.output
	}
	var obs []capacity.Observation
	for _, w := range done {
		if share := (tokens{w.input, w.output}).shareOf(all); share > 0 {
			obs = append(obs, capacity.Observation{
				Series: source + 2*w.stretch + 2*1024*w.engine, Source: source, Cluster: int(w.step), InFlight: w.inFlight,
				Sec: w.inFlight * w.sec / share, Weight: w.sec, Noise: mixNoise,
			})
		}
	}
	return obs
}

// byCounters compares tokens per second with load: engine by engine where the records hold that, else over the steps'
// windows, too.
func byCounters(m *measurements, shifts speedShifts) []capacity.Observation {
	var windows, bins []work
	number := map[rollout.EngineID]int{}
	for i := range m.all {
		v, no, stretch := m.all[i].view(), m.all[i].no, shifts.stretch(m.all[i].no)
		if stretch == changing {
			continue
		}
		if f := &v.Fleet; f.Engines > 0 && f.WindowSec > 0 {
			busy := 1.0
			if f.BusyShare > 0 {
				busy = min(1, f.BusyShare)
			}
			windows = append(windows, work{stretch: stretch, step: no, inFlight: f.InFlight / busy,
				input: f.InputTPS * f.WindowSec / f.Engines, output: f.OutputTPS * f.WindowSec / f.Engines,
				sec: busy * f.WindowSec})
		}
		for _, e := range v.Engines {
			if _, known := number[e.Engine]; !known {
				number[e.Engine] = len(number)
			}
			// Prompts count with what was cached: a cache that holds less of them under a higher load is part of its effect.
			for _, b := range e.Loads {
				bins = append(bins, work{number[e.Engine], stretch, no, b.InFlight,
					b.InputTokens / max(0.05, 1-e.PrefixHitShare), b.OutputTokens, b.Sec})
			}
		}
	}
	obs := observations(byEngines, bins)
	if len(obs) > 2 && 2*len(obs) >= len(m.all) {
		return obs
	}
	return append(observations(byWindows, windows), obs...)
}

// report is the fit as a report has it; nil when nothing was seen.
func (s *engineSpeed) report() *EngineLoad {
	if s.Observations == 0 {
		return nil
	}
	return &EngineLoad{
		InFlight: s.Load, Half: s.Curve.Half, Knee: s.Curve.Knee, Observations: s.Observations, Error: s.Error,
		Basis: Fitted, SeenLow: s.SeenLow, SeenHigh: s.SeenHigh, Slowdown: s.Curve.Slowdown(s.Load),
		Rise: s.Rise, RiseLow: s.RiseLow, RiseHigh: s.RiseHigh, Decided: s.Decided(),
	}
}

// sayLoad is the evidence for or against saturated engines.
func (reg *regime) sayLoad(lines []Evidence) []Evidence {
	s := &reg.speed
	if s.Observations == 0 || reg.slots.full() {
		return lines
	}
	known := "10 % more make it generate"
	if !s.Decided() {
		known = "it cannot be told whether 10 % more make it generate"
	}
	return append(lines, Evidence{fmt.Sprintf(
		"%s to %s requests in flight at an engine were seen, %s now: %s %s to %s more "+
			"tokens", units.Number(s.SeenLow), units.Number(s.SeenHigh), units.Number(s.Load), known,
		units.Percent(s.RiseLow/10), units.Percent(s.RiseHigh/10)), Fitted})
}

// onlySlower describes the effect of more requests on saturated engines.
func (s *engineSpeed) onlySlower() string {
	return fmt.Sprintf(
		"with %s requests in flight at an engine, 10 %% more make it generate only %s more tokens (fitted): "+
			"the rest only makes the others slower", units.Number(s.Load), units.Percent(s.Rise/10))
}

// speedShifts are the steps at which the engines' speed changed. Engines that become slower have more in flight,
// because fewer groups are ready, so a difference across such a step is no effect of the load.
type speedShifts struct {
	steps []rollout.Step
	lag   rollout.Step // steps between a group's launch and its training
}

// shiftsOfSpeed finds them in the time that the groups' requests took for their tokens, step by step.
func shiftsOfSpeed(m *measurements) speedShifts {
	used, all := make([]rollout.Usage, len(m.all)), rollout.Usage{}
	for i := range m.all {
		for _, g := range m.all[i].view().Groups {
			used[i] = used[i].Add(g.Usage)
		}
		all = all.Add(used[i])
	}
	var steps []rollout.Step
	var took []float64
	for i, u := range used {
		share := tokensOf(u).shareOf(tokensOf(all))
		if share == 0 {
			share = float64(u.Requests)
		}
		if share > 0 && u.ExecSec > 0 {
			steps, took = append(steps, m.all[i].no), append(took, u.ExecSec/share)
		}
	}
	s := speedShifts{lag: rollout.Step(m.depth())}
	found, _ := changepoint.Detect(took, changepoint.Options{}) // none in too few steps
	for _, c := range found.Changes {
		// The groups of a prefill are launched all at once, and so meet different loads.
		if steps[c.At]-m.all[0].no > s.lag+1 {
			s.steps = append(s.steps, steps[c.At])
		}
	}
	return s
}

// changing is the stretch of steps in which the speed changes: they belong to neither speed.
const changing = -1

// stretch numbers the stretches of steps whose engines had one speed before the claim. What engines did shows a shift
// before the groups that are trained on do.
func (s speedShifts) stretch(no rollout.Step) int {
	number := 0
	for i, at := range s.steps {
		switch {
		case no > at:
			number = i + 1
		case no >= at-2*s.lag:
			return changing
		}
	}
	return number
}

const (
	// kvNearlyFull is the share of the KV caches from which on more games may not fit, or no more prefixes be kept.
	kvNearlyFull = 0.7
	// mostOutside is the share of games' time outside of engines from which on workers or environments may be the limit.
	mostOutside = 0.35
)

// outsideShare is the share of the games' time that they spend in their environment.
func (m *measurements) outsideShare() float64 {
	env := m.mean(m.present, batchSum(func(g *steprecord.GroupView) float64 { return floats.Sum(g.EnvSec) }))
	return env / max(1e-9, m.mean(m.present, batchSum(gameSec)))
}
