package diagnosis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/millrace/millrace/internal/diagnosis/changepoint"
	"github.com/millrace/millrace/internal/engine/capacity"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// The ways in which the engines' load and speed are seen.
const (
	byGroups  = iota // the timelines of the groups: request time against the requests in flight meanwhile
	byWindows        // the steps' windows: tokens per second against the requests in flight
	byEngines        // the engines' own counters, by load
)

// engineSpeed is how fast engines are at a load, as far as the records tell.
type engineSpeed struct {
	capacity.Fit
	// groupLoad is the requests in flight at an engine while a group was played, by its number.
	groupLoad map[rollout.GroupSeq]float64
	usualLoad float64
}

// speedOf fits the engines' curve to all that the records show of them, whichever steps are asked about.
func speedOf(asked *measurements, slots slotUse) engineSpeed {
	m := *asked
	m.all = m.recorded
	return speedOver(&m, slots)
}

func speedOver(m *measurements, slots slotUse) engineSpeed {
	loads, groups := loadsOf(m)
	loads.others = slots.others() / max(1, m.fleet.engines)
	dropped := m.dropRate(positions(0, len(m.steps))) > minWaitShare
	loads.partial = m.fleet.known && (loads.others > 0 || dropped || len(m.holes()) > 0)
	s := speedBy(m, &loads, groups)
	for range 2 { // what a load within a time counts for depends on the curve
		loads.weighBy(s.Curve.Half)
		s = speedBy(m, &loads, groups)
	}
	return s
}

// speedBy fits the curve with unlike loads weighed as they are.
func speedBy(m *measurements, loads *engineLoads, groups []playedGroup) engineSpeed {
	s := engineSpeed{groupLoad: map[rollout.GroupSeq]float64{}}
	obs := byGroupTimelines(m, loads, groups, s.groupLoad)
	shifts := shiftsOfSpeed(m, obs)
	obs = shifts.apart(obs)
	obs = append(obs, byCounters(m, loads, groups, shifts)...)
	s.usualLoad = presentLoad(m, s.groupLoad)
	if s.usualLoad == 0 {
		s.usualLoad = m.fleet.inFlight / max(1, m.fleet.engines)
	}
	s.Fit = capacity.Fitted(obs, s.usualLoad)
	return s
}

// leastSpan is by how much the highest load must exceed the lowest for loads to tell what engines do with more.
const leastSpan = 1.08

// Decided reports whether the loads that were seen tell whether engines are saturated.
func (s *engineSpeed) Decided() bool {
	return s.Fit.Decided() && (!s.IsSaturated() || s.SeenHigh >= leastSpan*s.SeenLow)
}

// presentLoad is the mean load that the present steps' groups felt.
func presentLoad(m *measurements, load map[rollout.GroupSeq]float64) float64 {
	sum, n := 0.0, 0.0
	for _, i := range m.present {
		v := m.steps[i].view()
		for j := range v.Groups {
			if at, known := load[v.Groups[j].Seq]; known {
				sum += at
				n++
			}
		}
	}
	return sum / max(1, n)
}

// load is the load that a group met; for one without a timeline, the load that others meet now.
func (s *engineSpeed) load(g *steprecord.GroupView) float64 {
	if at, known := s.groupLoad[g.Seq]; known && at > 0 {
		return at
	}
	return s.usualLoad
}

// series numbers the observations that share a speed: those of one stretch of steps, one way of counting, and one
// engine or kind of weights.
func series(source, stretch, of int) int { return source + 3*stretch + 3*1024*of }

// perRequest is the mean tokens of a request over the record.
type perRequest struct{ input, output float64 }

func tokensPerRequest(groups []playedGroup) perRequest {
	var u rollout.Usage
	for i := range groups {
		u = u.Add(groups[i].view.Usage)
	}
	if u.Requests == 0 {
		return perRequest{}
	}
	return perRequest{float64(u.InputTokens) / float64(u.Requests), float64(u.OutputTokens) / float64(u.Requests)}
}

// prompted is the prompt tokens of a bin, including cached ones. A cache that holds fewer of them under a higher load
// is part of the load's effect.
func prompted(e *enginestate.EngineView, b enginestate.LoadBin) float64 {
	return b.InputTokens / max(0.05, 1-e.PrefixHitShare)
}

// requests is a number of tokens in requests of mean size: prompts and completions count alike.
func (p perRequest) requests(input, output float64) float64 {
	switch {
	case p.input > 0 && p.output > 0:
		return (input/p.input + output/p.output) / 2
	case p.output > 0:
		return output / p.output
	case p.input > 0:
		return input / p.input
	}
	return 0
}

// byGroupTimelines compares the groups' request times, for requests of one size, with the load they felt, which it
// notes.
func byGroupTimelines(
	m *measurements, loads *engineLoads, groups []playedGroup, felt map[rollout.GroupSeq]float64,
) []capacity.Observation {
	mean := tokensPerRequest(groups)
	adapters, _ := modelTimes(groups)
	var obs []capacity.Observation
	for i := range groups {
		g := &groups[i]
		n := loads.over(g)
		felt[g.view.Seq] = n
		u := g.view.Usage
		work := mean.requests(float64(u.InputTokens), float64(u.OutputTokens))
		work = cmp.Or(work, float64(u.Requests))
		if loads.partial || work == 0 || g.view.MinVersion == 0 && !adapters.IsZero() && g.to.After(adapters) {
			continue // it was played beside games of another kind
		}
		obs = append(obs, capacity.Observation{
			Series: series(byGroups, 0, weights(g.view.MinVersion == 0)), Source: byGroups, Cluster: int(g.step),
			InFlight: n, Sec: u.ExecSec / work, Weight: work, Noise: timelineNoise,
		})
	}
	return obs
}

// timelineNoise is the least that a group's request time may be off from its load: they are of the whole group.
const timelineNoise = 0.02

// weights tells the base model, before the first adapter, from adapters: it may be faster.
func weights(base bool) int {
	if base {
		return 1
	}
	return 0
}

// modelTimes is since when games were played with an adapter, zero if none was, and until when with the base model.
func modelTimes(groups []playedGroup) (adapters, base time.Time) {
	for i := range groups {
		g := &groups[i]
		switch {
		case g.view.MinVersion == 0 && g.to.After(base):
			base = g.to
		case g.view.MinVersion > 0 && (adapters.IsZero() || g.from().Before(adapters)):
			adapters = g.from()
		}
	}
	return adapters, base
}

const (
	// mixNoise is the smallest assumed error of tokens per second.
	mixNoise = 0.005
	// leastBusy is the share of a window in which engines must have had work for it to count.
	leastBusy = 0.5
)

// byCounters compares tokens per second with load: engine by engine where the records hold that, else over the steps'
// windows, which count the same tokens once more, against loads that were rebuilt from the groups' timelines.
func byCounters(
	m *measurements, loads *engineLoads, groups []playedGroup, shifts speedShifts,
) []capacity.Observation {
	bins := byEngineBins(m, shifts)
	if len(bins) > 2 && 2*len(bins) >= len(m.all) {
		return bins
	}
	return append(byStepWindows(m, loads, groups, shifts), bins...)
}

// byStepWindows compares the fleet's tokens per second over each step's window with the requests in flight meanwhile.
func byStepWindows(
	m *measurements, loads *engineLoads, groups []playedGroup, shifts speedShifts,
) []capacity.Observation {
	var input, output, sec float64
	for i := range m.all {
		f := &m.all[i].view().Fleet
		input += f.InputTPS * f.WindowSec
		output += f.OutputTPS * f.WindowSec
		sec += f.WindowSec
	}
	if sec == 0 || len(groups) == 0 {
		return nil
	}
	mean := perRequest{input / sec, output / sec}
	_, base := modelTimes(groups)
	var obs []capacity.Observation
	for i := range m.all {
		v := m.all[i].view()
		f := &v.Fleet
		w := loads.windowOf(v)
		rate := mean.requests(f.InputTPS, f.OutputTPS) * f.WindowSec / max(1e-9, w.busy)
		stretch := shifts.ofWindows(m.all[i].no)
		if stretch == changing || rate <= 0 || f.Engines <= 0 || w.busy < leastBusy*f.WindowSec || w.load <= 0 {
			continue
		}
		obs = append(obs, capacity.Observation{
			Series: series(byWindows, stretch, weights(w.from.Before(base))), Source: byWindows,
			Cluster: int(m.all[i].no), InFlight: w.load, Sec: w.load * f.Engines / rate,
			Weight: math.Min(w.busy, sec/float64(len(m.all))), Noise: mixNoise,
		})
	}
	return obs
}

// byEngineBins compares what each engine did at one load with what it did at others.
func byEngineBins(m *measurements, shifts speedShifts) []capacity.Observation {
	var input, output, sec float64
	number := map[rollout.EngineID]int{}
	for i := range m.all {
		for _, e := range m.all[i].view().Engines {
			if _, known := number[e.Engine]; !known {
				number[e.Engine] = len(number)
			}
			for _, b := range e.Loads {
				input += prompted(&e, b)
				output += b.OutputTokens
				sec += b.Sec
			}
		}
	}
	if sec == 0 {
		return nil
	}
	mean := perRequest{input / sec, output / sec}
	var obs []capacity.Observation
	latest := map[rollout.EngineID]int{} // observation of each engine
	for i := range m.all {
		level := shifts.ofWindows(m.all[i].no)
		if level == changing {
			continue
		}
		for _, e := range m.all[i].view().Engines {
			for _, b := range e.Loads {
				rate := mean.requests(prompted(&e, b), b.OutputTokens) / max(1e-9, b.Sec)
				if rate <= 0 || b.InFlight <= 0 {
					continue
				}
				if at, known := latest[e.Engine]; known && sameStretch(obs[at], b.InFlight, rate) {
					obs[at].Weight += b.Sec
					continue
				}
				latest[e.Engine] = len(obs)
				obs = append(obs, capacity.Observation{
					Series: series(byEngines, level, number[e.Engine]), Source: byEngines, Cluster: int(m.all[i].no),
					InFlight: b.InFlight, Sec: b.InFlight / rate, Weight: b.Sec, Noise: mixNoise,
				})
			}
		}
	}
	return obs
}

// sameStretch reports whether a bin goes on with the stretch of the one before: one stretch is cut where a step ends.
func sameStretch(o capacity.Observation, inFlight, rate float64) bool {
	const rounding = 1e-3
	return math.Abs(o.InFlight/inFlight-1) < rounding && math.Abs(o.InFlight/o.Sec/rate-1) < rounding
}

// flatBeyond is the curve of engines that do no more beyond the loads that were seen; nil where they have room. Engines
// that are saturated may do a little more or nothing at all there, as their caches and schedulers have it: the loads
// that were seen do not tell.
func (s *engineSpeed) flatBeyond() *capacity.Curve {
	if s.Observations == 0 || !s.IsSaturated() {
		return nil
	}
	c := s.Curve
	c.Flat = max(s.SeenHigh, s.Load)
	return &c
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

// speedShifts are the steps at which the groups' speed changed. Engines that become slower have more in flight, because
// fewer groups are ready, so a difference across such a step is no effect of the load.
type speedShifts struct {
	steps []rollout.Step
	lag   rollout.Step // steps between a group's launch and its training
}

// shiftsOfSpeed finds them in the groups' request times, step by step.
func shiftsOfSpeed(m *measurements, obs []capacity.Observation) speedShifts {
	times := map[rollout.Step][]float64{}
	for _, o := range obs {
		if o.Sec > 0 {
			no := rollout.Step(o.Cluster)
			times[no] = append(times[no], o.Sec)
		}
	}
	var steps []rollout.Step
	var typical []float64
	for no := range times {
		steps = append(steps, no)
	}
	slices.Sort(steps)
	for _, no := range steps {
		typical = append(typical, stat.Median(times[no]))
	}
	s := speedShifts{lag: rollout.Step(m.depth())}
	if len(typical) > lastSteps {
		steps, typical = steps[len(steps)-lastSteps:], typical[len(typical)-lastSteps:]
	}
	found, err := changepoint.Detect(typical, changepoint.Options{})
	if err != nil {
		return s
	}
	for _, c := range found.Changes {
		// The groups of a prefill are launched all at once, and so meet different loads.
		if math.Abs(float64(steps[c.At]-m.all[0].no)) > float64(s.lag)+1 {
			s.steps = append(s.steps, steps[c.At])
		}
	}
	return s
}

// changing is the stretch of steps in which the speed changes: they belong to neither speed.
const changing = -1

// stretch numbers the stretches of steps with one speed. From so many steps before a shift until so many after it the
// speed is changing.
func (s speedShifts) stretch(no, before, after rollout.Step) int {
	number := 0
	for i, at := range s.steps {
		switch {
		case no >= at+after:
			number = i + 1
		case no >= at-before:
			return changing
		}
	}
	return number
}

// ofGroups is the stretch of groups by the step that they were trained on in: some were launched before a shift.
func (s speedShifts) ofGroups(no rollout.Step) int { return s.stretch(no, s.lag-1, s.lag) }

// ofWindows is the stretch of what engines did before a step was claimed: a shift shows there first.
func (s speedShifts) ofWindows(no rollout.Step) int { return s.stretch(no, 2*s.lag, 1) }

// apart is the observations of groups with those of each speed in series of their own.
func (s speedShifts) apart(obs []capacity.Observation) []capacity.Observation {
	var kept []capacity.Observation
	for _, o := range obs {
		if stretch := s.ofGroups(rollout.Step(o.Cluster)); stretch != changing {
			o.Series += series(0, stretch, 0)
			kept = append(kept, o)
		}
	}
	return kept
}

const (
	// kvNearlyFull is the share of the KV caches from which on more games may not fit, or no more prefixes be kept.
	kvNearlyFull = 0.7
	// mostOutside is the share of games' time outside of engines from which on workers or environments may be the limit.
	mostOutside = 0.35
)

// cachesShrink reports whether groups found less of their prompts in prefix caches the more there was at the engines:
// with more games in play they find less still.
func (reg *regime) cachesShrink(m *measurements) bool {
	var loads, missed []float64
	for i := range m.recorded {
		groups := m.recorded[i].view().Groups
		for j := range groups {
			if use, load := groups[j].Usage, reg.speed.groupLoad[groups[j].Seq]; load > 0 && use.CachedTokens > 0 {
				loads = append(loads, load)
				missed = append(missed, 1-float64(use.CachedTokens)/float64(use.InputTokens))
			}
		}
	}
	if len(loads) < 2*leastBefore {
		return false
	}
	slope, deviation := stat.Slope(loads, missed)
	return slope > plain*deviation && slope*(stat.Quantile(loads, 0.9)-stat.Quantile(loads, 0.1)) > movedLittle
}

// outsideShare is the share of the games' time that they spend in their environment.
func (m *measurements) outsideShare() float64 {
	env := m.mean(m.present, batchSum(func(g *steprecord.GroupView) float64 { return floats.Sum(g.EnvSec) }))
	return env / max(1e-9, m.mean(m.present, batchSum(gameSec)))
}
