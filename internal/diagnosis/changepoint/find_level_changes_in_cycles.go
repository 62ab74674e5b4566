package changepoint

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// withPeriodic adds to the cuts those that show only in the means of a period's values.
func (s series) withPeriodic(x []float64, cuts []int, o Options) []int {
	period := o.Period
	if period < 2 || len(x)/period < MinLength {
		return cuts
	}
	first := len(x) % period // the newest values count, whole periods of them
	var means []float64
	for i := first; i < len(x); i += period {
		means = append(means, floats.Sum(x[i:i+period])/float64(period))
	}
	found, err := Detect(means, Options{MinEffect: o.MinEffect})
	if err != nil {
		return cuts
	}
	near := func(at int) bool {
		return slices.ContainsFunc(cuts, func(cut int) bool { return max(cut-at, at-cut) <= period })
	}
	all := slices.Clone(cuts)
	for _, c := range found.Changes {
		at := s.sharpest(first+(c.At-1)*period, first+(c.At+1)*period, period)
		if !near(at) {
			all = append(all, at)
		}
	}
	slices.Sort(all)
	return all
}

// sharpest is where, within [from, to), the period before and the period after differ most.
func (s series) sharpest(from, to, period int) int {
	best, most := from+period, 0.0
	for at := max(from+1, period); at < min(to, len(s.y)-period+1); at++ {
		apart := math.Abs(floats.Sum(s.y[at:at+period]) - floats.Sum(s.y[at-period:at]))
		if apart > most {
			best, most = at, apart
		}
	}
	return best
}
