package changepoint

import (
	"math"
	"slices"

	"github.com/millrace/millrace/internal/kit/stat"
)

// Autocorrelated noise wanders: it lies above its mean for a while, then below, which looks like levels. So a cut must
// also pay for itself under correlated noise: with the cut and without it, the values are fitted as levels plus an
// AR(1) process, each with its best correlation. Without a real change the cut gains little, because correlated noise
// explains the values as well; with one, no correlation explains it.

const (
	// leastForCorrelation is the shortest series whose neighbours are compared.
	leastForCorrelation = 10
	// mostCorrelation bounds it: noise that resembles itself more than this is no noise.
	mostCorrelation = 0.9
	// leastNoise keeps series without noise from being explained infinitely well.
	leastNoise = 0.001
	// correlatedMargin times the correlation is by how much a cut must be worth more than it costs.
	correlatedMargin = 16.0
)

// fitted is how well levels and correlated noise explain a series.
type fitted struct {
	phi      float64 // correlation of neighbours
	variance float64 // of one value
	loss     float64 // minus twice the logarithm of the likelihood, but for a constant
}

// fitNoise fits an AR(1) process to what the values deviate from what is usual.
func (s series) fitNoise(usual func(i int) float64) fitted {
	n := float64(len(s.y))
	rest := make([]float64, len(s.y))
	var own, next float64
	for i, v := range s.y {
		rest[i] = v - usual(i)
		own += rest[i] * rest[i]
		if i > 0 {
			next += rest[i] * rest[i-1]
		}
	}
	f := fitted{variance: max(own/n, leastNoise*leastNoise)}
	if own > 0 {
		f.phi = max(0, min(next/own, mostCorrelation))
	}
	sum := (1 - f.phi*f.phi) * rest[0] * rest[0]
	for i := 1; i < len(rest); i++ {
		e := rest[i] - f.phi*rest[i-1]
		sum += e * e
	}
	f.loss = n*math.Log(max(sum/n, leastNoise*leastNoise)) - math.Log(1-f.phi*f.phi)
	return f
}

// fitLevels fits the noise around the means of the segments between cuts.
func (s series) fitLevels(cuts []int) fitted {
	usual := make([]float64, len(s.y))
	bounds := withEnds(cuts, len(s.y))
	for k := 1; k < len(bounds); k++ {
		from, to := bounds[k-1], bounds[k]
		sum := stat.Sum(slices.Values(s.y[from:to]))
		for i := from; i < to; i++ {
			usual[i] = sum / float64(to-from)
		}
	}
	return s.fitNoise(func(i int) float64 { return usual[i] })
}

// tamed is the series with its outliers replaced by what is usual: they are no noise.
func (s series) tamed(cuts []int) series {
	usual := make([]float64, len(s.y))
	bounds := withEnds(cuts, len(s.y))
	for k := 1; k < len(bounds); k++ {
		m := stat.Median(s.y[bounds[k-1]:bounds[k]])
		for i := bounds[k-1]; i < bounds[k]; i++ {
			usual[i] = m
		}
	}
	return s.tamedTo(usual)
}

func (s series) tamedTo(usual []float64) series {
	y := make([]float64, len(s.y))
	for i, v := range s.y {
		if y[i] = v; math.Abs(v-usual[i]) > clip*s.sigma {
			y[i] = usual[i]
		}
	}
	s.y = y
	return s
}

// prune drops the cuts that correlated noise would make, the least certain first. The others are weighed again after
// each, because their levels have become longer.
func (s series) prune(cuts []int) []int {
	cuts = slices.Clone(cuts)
	if len(s.y) < leastForCorrelation {
		return cuts
	}
	tamed := s.tamed(cuts)
	for len(cuts) > 0 {
		fit := tamed.fitLevels(cuts)
		with := fit.loss
		least, at := math.Inf(1), 0
		for i := range cuts {
			without := slices.Delete(slices.Clone(cuts), i, i+1)
			if gain := tamed.fitLevels(without).loss - with; gain < least {
				least, at = gain, i
			}
		}
		if least >= s.penalty()+correlatedMargin*fit.phi {
			break
		}
		cuts = slices.Delete(cuts, at, at+1)
	}
	return cuts
}
