package changepoint

import (
	"math"
	"slices"

	"github.com/millrace/millrace/internal/kit/stat"
)

// tie is the difference of costs that rounding can make. Spikes beside a change fit both levels equally
// badly; the earlier place then wins, whatever the unit.
const tie = 1e-6

// partition finds the cuts of least total cost: the sum of the segments' costs and a penalty for
// each cut. It tries every segment, so the answer is the optimum, not a heuristic's.
func (s series) partition() []int {
	n := len(s.y)
	costs := s.costs()
	penalty := s.penalty()
	best := make([]float64, n+1)
	from := make([]int, n+1)
	for j := 1; j <= n; j++ {
		best[j] = math.Inf(1)
		for i := 0; i <= j-minSegment; i++ {
			c := best[i] + costs[i][j-i]
			if i > 0 {
				c += penalty
			}
			if c < best[j]-tie {
				best[j], from[j] = c, i
			}
		}
	}
	var cuts []int
	for j := from[n]; j > 0; j = from[j] {
		cuts = append(cuts, j)
	}
	slices.Reverse(cuts)
	return cuts
}

// costs holds at [i][k] the cost of the k values from i on as one level.
func (s series) costs() [][]float64 {
	n := len(s.y)
	costs := make([][]float64, n)
	sorted := make([]float64, 0, n)
	for i := range n {
		costs[i] = make([]float64, n-i+1)
		sorted = sorted[:0]
		for j := i; j < n; j++ {
			at, _ := slices.BinarySearch(sorted, s.y[j])
			sorted = slices.Insert(sorted, at, s.y[j])
			costs[i][j-i+1] = s.costAround(middle(sorted), i, j+1)
		}
	}
	return costs
}

func (s series) cost(from, to int) float64 { return s.costAround(stat.Median(s.y[from:to]), from, to) }

func (s series) costAround(center float64, from, to int) float64 {
	sum := 0.0
	for _, v := range s.y[from:to] {
		z := (v - center) / s.sigma
		sum += min(z*z, clip*clip)
	}
	return sum
}

// gate drops the smallest change for as long as it is below the least effect. Levels on both sides are measured again
// after each drop, because they have become one.
func (s series) gate(cuts []int) []int {
	strong := slices.Clone(cuts)
	for len(strong) > 0 {
		bounds := withEnds(strong, len(s.y))
		smallest, at := math.Inf(1), 0
		for i := range strong {
			before := stat.Median(s.y[bounds[i]:bounds[i+1]])
			after := stat.Median(s.y[bounds[i+1]:bounds[i+2]])
			if d := math.Abs(after - before); d < smallest {
				smallest, at = d, i
			}
		}
		if math.Exp(smallest)-1 >= s.minEffect {
			break
		}
		strong = slices.Delete(strong, at, at+1)
	}
	return strong
}

// refine moves each cut, in place, past outliers that are closer to the level on the cut's other side.
func (s series) refine(cuts []int) {
	for k := range cuts {
		bounds := withEnds(cuts, len(s.y))
		from, at, to := bounds[k], bounds[k+1], bounds[k+2]
		before, after := stat.Median(s.y[from:at]), stat.Median(s.y[at:to])
		for at-1 >= from+minSegment && s.strays(at-1, before, after) {
			at--
		}
		for at == bounds[k+1] && at+1 <= to-minSegment && s.strays(at, after, before) {
			at++
			bounds[k+1] = at
		}
		cuts[k] = at
	}
}

// strays reports whether value i is an outlier of its own level and closer to the other.
func (s series) strays(i int, own, other float64) bool {
	d := math.Abs(s.y[i] - own)
	return d > clip*s.sigma && math.Abs(s.y[i]-other) < d
}

func withEnds(cuts []int, n int) []int {
	bounds := make([]int, 0, len(cuts)+2)
	bounds = append(bounds, 0)
	bounds = append(bounds, cuts...)
	return append(bounds, n)
}

// middle is the median of sorted values; NaN for none.
func middle(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	if n%2 == 1 {
		return sorted[n/2]
	}
	return sorted[n/2-1] + (sorted[n/2]-sorted[n/2-1])/2
}
