package diagnosis

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/capacity"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/units"
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
	for i := range obs {
		obs[i].Series += series(0, shifts.ofGroups(rollout.Step(obs[i].Cluster)), 0)
	}
	obs = append(obs, byStepWindows(m, loads, groups, shifts)...)
	obs = append(obs, byEngineBins(m, shifts)...)
	s.usualLoad = presentLoad(m, s.groupLoad)
	if s.usualLoad == 0 {
		s.usualLoad = m.fleet.inFlight / max(1, m.fleet.engines)
	}
	s.Fit = capacity.Fitted(obs, s.usualLoad)
	return s
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

// load is what a group felt; of one whose timeline is not known, what others feel now.
func (s *engineSpeed) load(g *rollout.GroupView) float64 {
	if at, known := s.groupLoad[g.Seq]; known && at > 0 {
		return at
	}
	return s.usualLoad
}

// series numbers the observations that share a speed: those of a stretch of steps, of one way of counting, and of one
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
	return perRequest{prefilled(u) / float64(u.Requests), float64(u.OutputTokens) / float64(u.Requests)}
}

// prefilled is the prompt tokens that no cache held.
func prefilled(u rollout.Usage) float64 { return float64(max(0, u.InputTokens-u.CachedTokens)) }

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
	var obs []capacity.Observation
	for i := range groups {
		g := &groups[i]
		n := loads.over(g)
		felt[g.view.Seq] = n
		u := g.view.Usage
		work := mean.requests(prefilled(u), float64(u.OutputTokens))
		if work == 0 {
			work = float64(u.Requests)
		}
		if work == 0 {
			continue
		}
		obs = append(obs, capacity.Observation{
			Series: series(byGroups, 0, weights(g.view.MinVersion == 0)), Source: byGroups, Cluster: int(g.step),
			InFlight: n, Sec: u.ExecSec / work, Weight: work, Noise: timelineNoise,
		})
	}
	return calibrated(obs)
}

const (
	// timelineNoise is the least that a group's request time may be off from its load: they are of the whole group.
	timelineNoise = 0.02
	// loadError is the most by how much a group's load, rebuilt from timelines, is taken to be off: what its games hold is
	// not even over time.
	loadError = 0.02
)

// calibrated draws the loads together by as much of their spread as is error. Without that, times would seem to depend
// less on the load than they do.
func calibrated(obs []capacity.Observation) []capacity.Observation {
	mean, meanSec, n := 0.0, 0.0, float64(len(obs))
	for _, o := range obs {
		mean += math.Log(max(1e-9, o.InFlight)) / n
		meanSec += math.Log(max(1e-9, o.Sec)) / n
	}
	square, product, squareSec := 0.0, 0.0, 0.0
	for _, o := range obs {
		off, sec := math.Log(max(1e-9, o.InFlight))-mean, math.Log(max(1e-9, o.Sec))-meanSec
		square += off * off / n
		product += off * sec / n
		squareSec += sec * sec / n
	}
	if square == 0 {
		return obs
	}
	// An error of the load would show in the times that do not fit it.
	unexplained := max(0, squareSec-product*product/square)
	truth := max(0.1, 1-min(loadError*loadError, unexplained)/square)
	for i := range obs {
		obs[i].InFlight = math.Exp(mean + truth*(math.Log(max(1e-9, obs[i].InFlight))-mean))
	}
	return obs
}

// weights tells the base model, before the first adapter, from adapters: it may be faster.
func weights(base bool) int {
	if base {
		return 1
	}
	return 0
}

// baseModelUntil is until when games were played with the base model.
func baseModelUntil(groups []playedGroup) float64 {
	until := 0.0
	for i := range groups {
		if groups[i].view.MinVersion == 0 {
			until = max(until, groups[i].to)
		}
	}
	return until
}

// mixNoise is the least that tokens per second of a time may be off.
const mixNoise = 0.005

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
	if sec == 0 || len(loads.at) == 0 {
		return nil
	}
	mean := perRequest{input / sec, output / sec}
	base := baseModelUntil(groups)
	var obs []capacity.Observation
	for i := range m.all {
		v := m.all[i].view()
		f := &v.Fleet
		to := secondsBetween(loads.origin, v.GrantedAt)
		from := to - f.WindowSec
		rate := mean.requests(f.InputTPS, f.OutputTPS)
		if rate > 0 && f.Engines > 0 && from >= 0 && loads.idle(from, to) < 0.1*(to-from) {
			n := loads.mean(from, to)
			if plain := loads.plainMean(from, to); f.InFlight > 0 && plain > 0 { // two views of the same, that err differently
				n *= (1 + f.InFlight/plain) / 2
			}
			obs = append(obs, capacity.Observation{
				Series: series(byWindows, shifts.ofWindows(m.all[i].no), weights(from < base)), Source: byWindows,
				Cluster: int(m.all[i].no), InFlight: n, Sec: n * f.Engines / rate,
				Weight: math.Min(f.WindowSec, sec/float64(len(m.all))), Noise: mixNoise,
			})
		}
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
				input += b.InputTokens
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
	for i := range m.all {
		level := shifts.ofWindows(m.all[i].no)
		for _, e := range m.all[i].view().Engines {
			for _, b := range e.Loads {
				rate := mean.requests(b.InputTokens, b.OutputTokens) / max(1e-9, b.Sec)
				if rate <= 0 {
					continue
				}
				obs = append(obs, capacity.Observation{
					Series: series(byEngines, level, number[e.Engine]), Source: byEngines, Cluster: int(m.all[i].no),
					InFlight: b.InFlight, Sec: b.InFlight / rate, Weight: b.Sec, Noise: mixNoise,
				})
			}
		}
	}
	return obs
}

// slowdowns is how many times as long a request takes as alone: now, and at another load.
func (s *engineSpeed) slowdowns(at float64) (now, then float64) {
	return s.Curve.Slowdown(s.Load), s.Curve.Slowdown(at)
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
	seen := fmt.Sprintf("%s to %s requests in flight at an engine were seen, %s now", units.Number(s.SeenLow),
		units.Number(s.SeenHigh), units.Number(s.Load))
	if !s.Decided() {
		return append(lines, Evidence{fmt.Sprintf("%s: it cannot be told how much more an engine generates for one more (%s "+
			"to %s of what one alone would)", seen, units.Percent(s.RiseLow), units.Percent(s.RiseHigh)), Fitted})
	}
	text := fmt.Sprintf("%s: a request takes x%.1f as long as alone, and one more makes the engine generate %s (%s to %s) of "+
		"what one alone would", seen, s.Curve.Slowdown(s.Load), units.Percent(s.Rise), units.Percent(s.RiseLow),
		units.Percent(s.RiseHigh))
	if s.Curve.Half > 0 {
		text += fmt.Sprintf("; by (1 + (n/h)^k)^(1/k) with h %s, k %s, from %d observations that are %s off it in the median",
			units.Number(s.Curve.Half), units.Number(max(1, s.Curve.Knee)), s.Observations, units.Percent(s.Error))
	}
	return append(lines, Evidence{text, Fitted})
}

// onlySlower is what a request more does to engines that are saturated.
func (s *engineSpeed) onlySlower() string {
	return fmt.Sprintf("at %s requests in flight at an engine each takes x%.1f as long as alone, and one more makes the "+
		"engine generate only %s of what one alone would (fitted): the rest only makes the others slower",
		units.Number(s.Load), s.Curve.Slowdown(s.Load), units.Percent(s.Rise))
}
