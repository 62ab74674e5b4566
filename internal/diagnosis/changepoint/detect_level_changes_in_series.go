// Package changepoint finds where a short, noisy, positive series changes its level, and
// where it repeats itself. It is arithmetic only: a slice in, indices and numbers out.
//
// The method is exact optimal partitioning with a bounded (biweight) loss on the logarithm of
// the values. Logarithms make a shift a ratio, so the unit does not matter; the bounded loss
// lets single spikes be outliers instead of levels (Fearnhead & Rigaill, arXiv 1609.07363).
// The noise is taken from differences of neighbours, so a level shift does not raise it.
//
// Two things look like levels and are none. A drift, by about the same ratio from value to value,
// is reported as one wherever a straight line through the logarithms fits better than levels do.
// Noise of which each value resembles the one before (AR(1)) is measured from the series, and a
// change that such noise makes by itself is doubted and dropped.
//
// It is meant for 4 to some hundred values; the cost grows with the cube of the length (500
// values take tens of milliseconds). Random walks are not modelled.
//
// Start reading at Detect, then Oscillates.
package changepoint

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/kit/stat"
)

// MinLength is the shortest series that can be answered for.
const MinLength = 4

// DefaultMinEffect is the smallest relative change that is called a change.
const DefaultMinEffect = 0.10

const (
	minSegment     = 2   // values on each side of a change
	clip           = 3.0 // K: residuals beyond so many sigmas are outliers, and cost no more than that
	sigmaFloor     = 0.02
	confirmedAfter = 3 // values of the new level
)

// ErrTooShort is returned for a series of fewer than MinLength values.
var ErrTooShort = errors.New("too few values")

// ErrNotPositive is returned for a series that holds a zero, a negative, an infinite or no number.
var ErrNotPositive = errors.New("not a positive number")

// Options tunes Detect. The zero value is meant to be used.
type Options struct {
	// MinEffect is the relative change below which a change is weak: 0 means DefaultMinEffect, a
	// negative value lets every change through.
	MinEffect float64
	// Refine moves a change past values beside it that are outliers of their own level and closer to the
	// other. The bounded loss cannot tell to which of two levels a value far from both belongs; where a
	// step is the cause of what follows, the closer one is meant.
	Refine bool
	// Period, if above 1, is after how many values the series may repeat itself. What repeats itself is no noise then: a
	// change is also looked for in the means of as many values.
	Period int
	// Known are changes that something else than the series shows.
	Known []int
}

// Result is what Detect found. Indices are 0-based; a change lies at the first value of its new level.
type Result struct {
	Changes  []Change
	Segments []Segment // one more than Changes
	Outliers []int     // values far from their level
	// Drifts are stretches that grow or shrink steadily, in order. Inside of them there are no changes.
	Drifts []Drift
}

// Segment is a level: the values in [From, To).
type Segment struct{ From, To int }

// Change is one shift of the level.
type Change struct {
	At        int
	Ratio     float64 // new level / old level, of medians
	Confirmed bool    // three values of the new level are seen; before that it is provisional
}

// Detect partitions x, oldest value first, into levels.
func Detect(x []float64, o Options) (Result, error) {
	if len(x) < MinLength {
		return Result{}, fmt.Errorf("%w: %d, need %d", ErrTooShort, len(x), MinLength)
	}
	y := make([]float64, len(x))
	for i, v := range x {
		if !(v > 0) || math.IsInf(v, 1) {
			return Result{}, fmt.Errorf("value %d is %v: %w", i, v, ErrNotPositive)
		}
		y[i] = math.Log(v)
	}
	s := series{y: y, sigma: noise(y), minEffect: minEffect(o)}
	cuts := s.partition()
	believed := s.prune(cuts)
	stretches := s.drifts(believed)
	if slices.ContainsFunc(stretches, func(p stretch) bool { return p.line != nil }) {
		s.stretches = stretches
		return s.describe(s.changesBetween(stretches)), nil
	}
	kept := slices.DeleteFunc(s.gate(cuts), func(at int) bool { return !slices.Contains(believed, at) })
	if o.Refine {
		s.refine(kept)
	}
	return s.describe(s.withKnown(s.withPeriodic(x, kept, o), o.Known)), nil
}

func minEffect(o Options) float64 {
	if o.MinEffect == 0 {
		return DefaultMinEffect
	}
	return o.MinEffect
}

// series is the logarithm of the values with the noise of one of them.
type series struct {
	y         []float64
	sigma     float64
	minEffect float64
	stretches []stretch // that hold a drift; else nil
}

// penalty is the cost of a cut.
func (s series) penalty() float64 { return 6 + 2*math.Log(float64(len(s.y))) }

// noise estimates the standard deviation of one value from differences at short lags: the widest
// of the first three, so that slow wobble counts as noise, widened for short series and never
// below the floor.
func noise(y []float64) float64 {
	lags := 1
	if len(y) >= 24 {
		lags = 3
	}
	sigma := 0.0
	for lag := 1; lag <= lags; lag++ {
		sigma = max(sigma, lagNoise(y, lag))
	}
	return max(sigma*(1+3/float64(len(y))), sigmaFloor)
}

// madToSigma turns the median of absolute normal deviations into a standard deviation.
const madToSigma = 1.4826

func lagNoise(y []float64, lag int) float64 {
	d := make([]float64, 0, len(y)-lag)
	for i := lag; i < len(y); i++ {
		d = append(d, math.Abs(y[i]-y[i-lag]))
	}
	return madToSigma * stat.Median(d) / math.Sqrt2
}

func (s series) describe(cuts []int) Result {
	r := Result{}
	for _, p := range s.stretches {
		if p.line != nil {
			r.Drifts = append(r.Drifts, Drift{From: p.from, To: p.to, PerValue: math.Expm1(p.line.b),
				Start: math.Exp(p.line.a)})
		}
	}
	bounds := withEnds(cuts, len(s.y))
	for i := 1; i < len(bounds); i++ {
		from, to := bounds[i-1], bounds[i]
		r.Segments = append(r.Segments, Segment{From: from, To: to})
		r.Outliers = append(r.Outliers, s.outliers(from, to)...)
	}
	for i := 1; i < len(bounds)-1; i++ {
		from, at, to := bounds[i-1], bounds[i], bounds[i+1]
		r.Changes = append(r.Changes, Change{
			At:        at,
			Ratio:     math.Exp(stat.Median(s.y[at:to]) - stat.Median(s.y[from:at])),
			Confirmed: to-at >= confirmedAfter,
		})
	}
	return r
}

func (s series) outliers(from, to int) []int {
	var out []int
	usual := s.usual(from, to)
	for i := from; i < to; i++ {
		if math.Abs(s.y[i]-usual(i)) > clip*s.sigma {
			out = append(out, i)
		}
	}
	return out
}

// usual is the noiseless value in [from, to): the median, or the drift.
func (s series) usual(from, to int) func(i int) float64 {
	if s.stretches == nil {
		m := stat.Median(s.y[from:to])
		return func(int) float64 { return m }
	}
	return func(i int) float64 {
		p := s.stretches[slices.IndexFunc(s.stretches, func(p stretch) bool { return i < p.to })]
		if p.line != nil {
			return p.line.at(i)
		}
		return stat.Median(s.y[p.from:p.to])
	}
}

// withKnown adds cuts that are known from elsewhere, where they leave levels of more than a value.
func (s series) withKnown(cuts, known []int) []int {
	all := slices.Clone(cuts)
	for _, at := range known {
		bounds := withEnds(all, len(s.y))
		if !slices.ContainsFunc(bounds, func(cut int) bool { return max(cut-at, at-cut) < minSegment }) {
			all = append(all, at)
			slices.Sort(all)
		}
	}
	return all
}
