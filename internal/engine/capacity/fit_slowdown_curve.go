package capacity

import (
	"math"
	"slices"

	"github.com/millrace/millrace/internal/kit/stat"
)

// Observation is an engine's measured speed at a load.
type Observation struct {
	// Series tells apart what may differ in speed: engines, stretches of time, ways of counting.
	Series int
	// Source is the way of counting; each has a noise of its own.
	Source int
	// Cluster groups, within a source, observations whose errors may be correlated.
	Cluster int
	// InFlight is the mean number of requests in flight at the engine, and Sec the time of one unit of work.
	InFlight, Sec float64
	// Weight is how much it counts beside others of its source.
	Weight float64
	// Noise is the least that an observation may be off, as a share; 0: leastNoise. Its source's greatest counts.
	Noise float64
}

// Fit is the conclusion from observations about engines at a load.
type Fit struct {
	Curve Curve
	// Load is the requests in flight at an engine that the rises are for.
	Load float64
	// Rise is the best curve's at Load, RiseLow and RiseHigh the least and the greatest of the possible curves.
	Rise, RiseLow, RiseHigh float64
	// Saturated and Free are the possible curves with the least and the greatest rise.
	Saturated, Free Curve
	// Others are possible curves with other knees.
	Others []Curve
	// SeenLow and SeenHigh are the loads that were seen: a tenth of the observations is below, and a tenth above.
	SeenLow, SeenHigh float64
	Observations      int
	// Error is the median of how far observations are from the curve, as a share of their time.
	Error float64
}

const (
	// decides is the rise that parts saturated engines from those with room: one more request in flight is as much
	// throughput as it is delay.
	decides = 0.5
	// narrow is the width of an interval of rises around break-even that counts as a finding: more load costs about as
	// much as it brings, and engines and depth both help.
	narrow = 0.3
)

// Decided reports whether the observations tell saturated engines from those with room.
func (f Fit) Decided() bool {
	return f.Observations > 0 && (f.RiseHigh <= decides+1e-9 || f.RiseLow > decides || f.RiseHigh-f.RiseLow <= narrow)
}

// Doubt is how unsure the rise is: 0 where it is known, 1 where its interval is as wide as one that decides nothing.
func (f Fit) Doubt() float64 { return min(1, (f.RiseHigh-f.RiseLow)/narrow) }

// IsSaturated reports whether more requests in flight are more delay than throughput.
func (f Fit) IsSaturated() bool { return f.Rise < decides }

// Flatter grid steps near the ends, where engines are all of one kind.
var (
	rises = riseGrid()
	knees = []float64{1, 2, 4}
)

func riseGrid() []float64 {
	var grid []float64
	for x := -4.0; x <= 4.01; x += 0.2 {
		grid = append(grid, 1/(1+math.Exp(-x)))
	}
	return append(grid, 1)
}

const (
	// leastNoise is the least that an observation may be off, as a share: no model is closer to an engine.
	leastNoise = 0.01
	// possible is how far a curve's loss may exceed the least one: 90 % of a chi-square of one degree, halved.
	possible = 1.35
	// kneeCosts is by how much a curve with a knee must be better than one without to be taken for the best.
	kneeCosts = 2
	// atMost bounds the observations that are fitted: beyond, they are thinned evenly.
	atMost = 600
	// robust is from how many deviations on an observation counts no more than it does there.
	robust = 2.5
)

// Fitted fits the curve of observed engines, judged at a load. Without observations at different loads, every curve is
// possible.
func Fitted(observed []Observation, load float64) Fit {
	obs := usable(observed)
	fit := Fit{Load: load, RiseLow: 0, RiseHigh: 1, Rise: 1, Observations: len(obs)}
	fit.Saturated = CurveWith(rises[0], load, 1)
	if len(obs) < 3 || !(load > 0) {
		fit.Observations = 0
		return fit
	}
	fit.SeenLow, fit.SeenHigh = loadsOf(obs)
	d := newData(obs)
	noise := d.noise(d.best(d.evenNoise(), load))
	best := d.best(noise, load)
	noise = d.noise(best)
	worse := d.designEffect(best, noise)
	best = d.best(noise, load)
	least := math.Inf(1)
	for _, knee := range knees {
		for _, rise := range rises {
			least = min(least, d.loss(CurveWith(rise, load, knee), noise)/worse)
		}
	}
	fit.Curve, fit.Rise = best, best.Rise(load)
	fit.RiseLow, fit.RiseHigh = fit.Rise, fit.Rise
	fit.Saturated, fit.Free = best, best
	for _, knee := range knees {
		nearest, found := math.Inf(1), Curve{}
		for _, rise := range rises {
			c := CurveWith(rise, load, knee)
			loss := d.loss(c, noise) / worse
			if loss > least+possible {
				continue
			}
			if loss+unlikely(rise) < nearest {
				nearest, found = loss+unlikely(rise), c
			}
			if rise < fit.RiseLow {
				fit.RiseLow, fit.Saturated = rise, c
			}
			if rise > fit.RiseHigh {
				fit.RiseHigh, fit.Free = rise, c
			}
		}
		if !math.IsInf(nearest, 1) && knee != max(1, best.Knee) {
			fit.Others = append(fit.Others, found)
		}
	}
	fit.Error = stat.Median(absolutes(d.residuals(best)))
	return fit
}

// usable leaves out what says nothing, and thins out the rest.
func usable(observed []Observation) []Observation {
	var obs []Observation
	for _, o := range observed {
		if o.InFlight > 0 && o.Sec > 0 && o.Weight > 0 && !math.IsInf(o.InFlight+o.Sec+o.Weight, 0) {
			obs = append(obs, o)
		}
	}
	if len(obs) <= atMost {
		return obs
	}
	thin := make([]Observation, 0, atMost)
	for i := range atMost {
		thin = append(thin, obs[i*len(obs)/atMost])
	}
	return thin
}

// data is observations ready for comparison with many curves.
type data struct {
	obs     []Observation
	logSec  []float64
	bySerie [][]int   // positions of each series
	weight  []float64 // of each observation: 1 on average over its source
	sources int
	least   []float64 // noise of each source
	scratch []float64
}

func newData(obs []Observation) *data {
	d := &data{obs: obs, scratch: make([]float64, len(obs))}
	series, sums, counts := map[int]int{}, map[int]float64{}, map[int]float64{}
	for i, o := range obs {
		at, known := series[o.Series]
		if !known {
			at = len(d.bySerie)
			series[o.Series] = at
			d.bySerie = append(d.bySerie, nil)
		}
		d.bySerie[at] = append(d.bySerie[at], i)
		d.logSec = append(d.logSec, math.Log(o.Sec))
		sums[o.Source] += o.Weight
		counts[o.Source]++
		d.sources = max(d.sources, o.Source+1)
	}
	d.least = make([]float64, d.sources)
	for _, o := range obs {
		d.least[o.Source] = max(d.least[o.Source], o.Noise)
		d.weight = append(d.weight, min(4, o.Weight*counts[o.Source]/sums[o.Source]))
	}
	return d
}

// evenNoise is a first guess.
func (d *data) evenNoise() []float64 { return slices.Repeat([]float64{0.1}, d.sources) }

// residuals is by how much each observation is slower than the curve, as a logarithm, its series' speed taken out. The
// next call overwrites it.
func (d *data) residuals(c Curve) []float64 {
	r := d.scratch
	for i := range d.obs {
		r[i] = d.logSec[i] - math.Log(c.Slowdown(d.obs[i].InFlight))
	}
	for _, at := range d.bySerie {
		d.centre(r, at)
	}
	return r
}

// centre takes the middle of a series out of its residuals: a mean in which those far off count little.
func (d *data) centre(r []float64, at []int) {
	mean := func(bound float64, around float64) float64 {
		sum, total := 0.0, 0.0
		for _, i := range at {
			w := d.weight[i]
			if off := math.Abs(r[i] - around); off > bound {
				w *= bound / off
			}
			sum += w * r[i]
			total += w
		}
		return sum / total
	}
	middle := mean(math.Inf(1), 0)
	for range 3 {
		spread := 0.0
		total := 0.0
		for _, i := range at {
			spread += d.weight[i] * math.Abs(r[i]-middle)
			total += d.weight[i]
		}
		middle = mean(max(leastNoise, 1.25*spread/total), middle)
	}
	for _, i := range at {
		r[i] -= middle
	}
}

// noise is each source's typical residual under a curve.
func (d *data) noise(c Curve) []float64 {
	r := d.residuals(c)
	by := make([][]float64, d.sources)
	for i, o := range d.obs {
		by[o.Source] = append(by[o.Source], math.Abs(r[i])*math.Sqrt(d.weight[i]))
	}
	out := make([]float64, d.sources)
	for s := range by {
		freedom := 1.0 // a series' speed is fitted to it
		if n := float64(len(by[s])); n > 0 {
			series := 0
			for _, at := range d.bySerie {
				if d.obs[at[0]].Source == s {
					series++
				}
			}
			freedom = math.Sqrt(n / max(1, n-float64(series)-1))
		}
		out[s] = max(leastNoise, d.least[s], 1.4826*stat.Median(by[s])*freedom)
	}
	return out
}

// loss is how far the observations are from a curve, in deviations; from robust deviations on it grows no faster than
// the distance.
func (d *data) loss(c Curve, noise []float64) float64 {
	r := d.residuals(c)
	sum := 0.0
	for i, o := range d.obs {
		z := math.Abs(r[i]) / noise[o.Source] * math.Sqrt(d.weight[i])
		if z > robust {
			sum += robust * (z - robust/2)
			continue
		}
		sum += z * z / 2
	}
	return sum
}

// best is the curve with the least loss.
func (d *data) best(noise []float64, load float64) Curve {
	var best Curve
	least := math.Inf(1)
	for _, knee := range knees {
		costs := 0.0
		if knee > 1 {
			costs = kneeCosts
		}
		for _, rise := range slices.Backward(rises) { // of equals, the one that makes least of the load
			c := CurveWith(rise, load, knee)
			if loss := d.loss(c, noise) + costs + unlikely(rise); loss < least-1e-6 {
				best, least = c, loss
			}
		}
	}
	return best
}

// unlikely is the prior against a curve: engines that turn less than a tenth of one more request into throughput are
// rare, and noise in the loads makes engines look more saturated than they are.
func unlikely(rise float64) float64 {
	odds := math.Log(rise / (1 - rise))
	if odds >= 0 {
		return 0
	}
	return odds * odds / 8
}

// designEffect is by how much more the observations err than if each erred for itself: the variance of the clusters'
// mean residuals over what chance alone would make it.
func (d *data) designEffect(c Curve, noise []float64) float64 {
	type key struct{ source, cluster int }
	r := d.residuals(c)
	sums, counts := map[key]float64{}, map[key]float64{}
	var keys []key
	for i, o := range d.obs {
		k := key{o.Source, o.Cluster}
		if counts[k] == 0 {
			keys = append(keys, k)
		}
		z := r[i] / noise[o.Source] * math.Sqrt(d.weight[i])
		sums[k] += min(robust, max(-robust, z))
		counts[k]++
	}
	effect, clusters := 0.0, 0.0
	for _, k := range keys {
		if counts[k] > 1 {
			effect += sums[k] * sums[k] / counts[k]
			clusters++
		}
	}
	if clusters < 3 {
		return 2 // not known
	}
	return max(1, effect/clusters)
}

// loadsOf is the loads that a tenth of the observations is below and above.
func loadsOf(obs []Observation) (low, high float64) {
	loads := make([]float64, len(obs))
	for i, o := range obs {
		loads[i] = o.InFlight
	}
	slices.Sort(loads)
	tenth := len(loads) / 10
	return loads[tenth], loads[len(loads)-1-tenth]
}

func absolutes(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = math.Abs(v)
	}
	return out
}
