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
	// slowed: requests take longer at the same load than they did before.
	slowed    bool
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
	loads.partial = m.fleet.known && (loads.others > 0 || m.dropRate(positions(0, len(m.steps))) > minWaitShare)
	if loads.partial {
		loads.errorSec = 0
	}
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
	s.slowed = slowedDown(obs)
	obs = append(obs, byCounters(m, loads, groups, shifts)...)
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
	return perRequest{float64(u.InputTokens) / float64(u.Requests), float64(u.OutputTokens) / float64(u.Requests)}
}

// prompted is the prompt tokens of a bin, those included that a cache held. A cache that holds fewer of them the more
// requests are in flight is part of what the load does.
func prompted(e *rollout.EngineView, b rollout.LoadBin) float64 {
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
	adapters := firstAdapterGames(groups)
	var obs []capacity.Observation
	var played []int // the group of each
	for i := range groups {
		g := &groups[i]
		n := loads.over(g)
		felt[g.view.Seq] = n
		u := g.view.Usage
		work := mean.requests(float64(u.InputTokens), float64(u.OutputTokens))
		if work == 0 {
			work = float64(u.Requests)
		}
		if loads.partial || work == 0 || g.view.MinVersion == 0 && g.to > adapters {
			continue // it was played beside games of another kind
		}
		played = append(played, i)
		obs = append(obs, capacity.Observation{
			Series: series(byGroups, 0, weights(g.view.MinVersion == 0)), Source: byGroups, Cluster: int(g.step),
			InFlight: n, Sec: u.ExecSec / work, Weight: work, Noise: timelineNoise,
		})
	}
	errors := make([]float64, len(obs))
	for i, at := range played {
		errors[i] = loads.errorOver(groups[at].to - groups[at].from)
	}
	return calibrated(obs, errors, true)
}

const (
	// timelineNoise is the least that a group's request time may be off from its load: they are of the whole group.
	timelineNoise = 0.02
	// loadError is the least by how much a load is taken to be off.
	loadError = 0.02
	// leastTruth is the share of the loads' spread that must be no error.
	leastTruth = 0.25
)

// calibrated draws the loads of one source together, within each series, by as much of their spread as is error.
// Without that, times that were seen apart from the load would seem to depend less on it than they do, and times that
// are reckoned from it, more. errors is the variance of each logarithm; apart: the times were seen apart. Loads that
// differ by little but their error say nothing.
func calibrated(obs []capacity.Observation, errors []float64, apart bool) []capacity.Observation {
	type sums struct{ weight, load float64 }
	middle := map[int]*sums{}
	for _, o := range obs {
		of := middle[o.Series]
		if of == nil {
			of = &sums{}
			middle[o.Series] = of
		}
		of.weight += o.Weight
		of.load += o.Weight * logOf(o.InFlight)
	}
	square, err := 0.0, 0.0
	for i, o := range obs {
		off := logOf(o.InFlight) - middle[o.Series].load/middle[o.Series].weight
		square += o.Weight * off * off
		err += o.Weight * errors[i]
	}
	if square == 0 {
		return obs
	}
	truth := 1 - err/square
	if truth < leastTruth {
		return nil
	}
	for i := range obs {
		of := middle[obs[i].Series]
		mean := of.load / of.weight
		was := obs[i].InFlight
		obs[i].InFlight = math.Exp(mean + truth*(logOf(was)-mean))
		if !apart {
			obs[i].Sec *= obs[i].InFlight / was
		}
	}
	return obs
}

func logOf(v float64) float64 { return math.Log(max(1e-9, v)) }

// weights tells the base model, before the first adapter, from adapters: it may be faster.
func weights(base bool) int {
	if base {
		return 1
	}
	return 0
}

// firstAdapterGames is when games were first played with an adapter.
func firstAdapterGames(groups []playedGroup) float64 {
	first := math.Inf(1)
	for i := range groups {
		if groups[i].view.MinVersion > 0 {
			first = min(first, groups[i].from)
		}
	}
	return first
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

const (
	// mixNoise is the least that tokens per second of a time may be off.
	mixNoise = 0.005
	// leastBusy is the share of a window in which engines must have had something to do for it to count.
	leastBusy = 0.5
)

// byCounters compares tokens per second with load: engine by engine where the records hold that, else over the steps'
// windows, which count the same tokens once more, against loads that were rebuilt from the groups' timelines.
func byCounters(
	m *measurements, loads *engineLoads, groups []playedGroup, shifts speedShifts,
) []capacity.Observation {
	bins := byEngineBins(m, loads, shifts)
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
	if sec == 0 || len(loads.at) == 0 {
		return nil
	}
	mean := perRequest{input / sec, output / sec}
	base := baseModelUntil(groups)
	var obs []capacity.Observation
	var errors []float64
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
			Series: series(byWindows, stretch, weights(w.from < base)), Source: byWindows,
			Cluster: int(m.all[i].no), InFlight: w.load, Sec: w.load * f.Engines / rate,
			Weight: math.Min(w.busy, sec/float64(len(m.all))), Noise: mixNoise,
		})
		errors = append(errors, loads.errorOver(w.busy)/2) // it is the mean of two views
	}
	return calibrated(obs, errors, false)
}

// byEngineBins compares what each engine did at one load with what it did at others.
func byEngineBins(m *measurements, loads *engineLoads, shifts speedShifts) []capacity.Observation {
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
	errors := make([]float64, len(obs))
	for i, o := range obs {
		errors[i] = loads.errorOver(o.Weight) * float64(max(1, len(number)))
	}
	return calibrated(obs, errors, false)
}

// sameStretch reports whether a bin goes on with the stretch of the one before: one stretch is cut where a step ends.
func sameStretch(o capacity.Observation, inFlight, rate float64) bool {
	const rounding = 1e-3
	return math.Abs(o.InFlight/inFlight-1) < rounding && math.Abs(o.InFlight/o.Sec/rate-1) < rounding
}

// slowdowns is how many times as long a request takes as alone: now, and at another load.
func (s *engineSpeed) slowdowns(at float64) (now, then float64) {
	return s.Curve.Slowdown(s.Load), s.Curve.Slowdown(at)
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
	seen := fmt.Sprintf("%s to %s requests in flight at an engine were seen, %s now", units.Number(s.SeenLow),
		units.Number(s.SeenHigh), units.Number(s.Load))
	if !s.Decided() {
		return append(lines, Evidence{fmt.Sprintf("%s: it cannot be told how much more an engine generates for one more (%s "+
			"to %s of what one alone would)", seen, units.Percent(s.RiseLow), units.Percent(s.RiseHigh)), Fitted})
	}
	text := fmt.Sprintf("%s: a request takes x%.1f as long as alone, and one more makes the engine generate %s (%s to "+
		"%s) of what one alone would", seen, s.Curve.Slowdown(s.Load), units.Percent(s.Rise), units.Percent(s.RiseLow),
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
