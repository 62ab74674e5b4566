package openloop

import (
	"math"
	"slices"
)

// ExponentialBins is where k bins end for lengths that are exponential with a mean, in batches of so many requests:
// with q(i) the share of lengths beyond the end of bin i, q(k-2)/q(k-1) is the harmonic number of the batch, and
// q(i-1)/q(i) = 1 + ln(q(i)/q(i+1)) (the same paper, appendix A.4, which minimises an upper bound).
func ExponentialBins(mean float64, k, batch int) []float64 {
	if k < 2 {
		return nil
	}
	harmonic := 0.0
	for i := 1; i <= batch; i++ {
		harmonic += 1 / float64(i)
	}
	ratios := make([]float64, k) // ratios[i] is q(i-1)/q(i)
	ratios[k-1] = harmonic
	for i := k - 2; i >= 1; i-- {
		ratios[i] = 1 + math.Log(ratios[i+1])
	}
	ends := make([]float64, k-1)
	at := 0.0
	for i := 1; i < k; i++ {
		at += math.Log(ratios[i])
		ends[i-1] = mean * at
	}
	return ends
}

// cuts bounds how many places are tried for the ends of bins, samples how many lengths stand for all.
const (
	cuts    = 64
	samples = 512
)

// OptimalBins is where k bins end so that full batches of so many requests are the shortest on average, for lengths
// like these: what each bin's batches take, by the expected longest of a batch, is minimised over all bins together.
func OptimalBins(lengths []int, k, batch int) []int {
	sorted := sampled(slices.Sorted(slices.Values(lengths)))
	places := min(cuts, len(sorted))
	at := make([]int, places+1) // where pieces of about equal mass begin
	for i := range at {
		at[i] = i * len(sorted) / places
	}
	k = min(k, places)
	cost := make([][]float64, places) // of a bin of the pieces from i up to j
	for i := range cost {
		cost[i] = make([]float64, places+1)
		for j := i + 1; j <= places; j++ {
			cost[i][j] = binCost(sorted, at[i], at[j], batch)
		}
	}
	// best[j] is the least cost of the first pieces up to j in as many bins as were made so far.
	best := slices.Clone(cost[0])
	from := make([][]int, k)
	for bins := 1; bins < k; bins++ {
		next := make([]float64, places+1)
		from[bins] = make([]int, places+1)
		for j := range next {
			next[j] = math.Inf(1)
			for i := bins; i < j; i++ {
				if sum := best[i] + cost[i][j]; sum < next[j] {
					next[j], from[bins][j] = sum, i
				}
			}
		}
		best = next
	}
	var ends []int
	for bins, j := k-1, places; bins >= 1; bins-- {
		j = from[bins][j]
		ends = append(ends, sorted[at[j]])
	}
	slices.Reverse(ends)
	return slices.Compact(ends)
}

// sampled is evenly chosen lengths, if there are many.
func sampled(sorted []int) []int {
	if len(sorted) <= samples {
		return sorted
	}
	few := make([]int, samples)
	for i := range few {
		few[i] = sorted[(2*i+1)*len(sorted)/(2*samples)]
	}
	return few
}

// binCost is a bin's share of the lengths times the expected longest of a batch from it.
func binCost(sorted []int, from, to, batch int) float64 {
	return float64(to-from) * expectedLongest(sorted[from:to], batch)
}

// expectedLongest is the mean of the longest of so many draws.
func expectedLongest(sorted []int, draws int) float64 {
	n, sum, below := float64(len(sorted)), 0.0, 0.0
	for i := len(sorted) - 1; i >= 0; i-- {
		// Draws that all lie at or below the i-th, less those that all lie below it.
		share := math.Pow(float64(i+1)/n, float64(draws)) - math.Pow(float64(i)/n, float64(draws))
		sum += share * float64(sorted[i])
		if below += share; below > 1-1e-12 {
			break
		}
	}
	return sum
}

// ExpectedLongest is what batches of so many requests have as their longest, on average over bins that end there.
func ExpectedLongest(lengths, ends []int, batch int) float64 {
	sorted := slices.Sorted(slices.Values(lengths))
	sum, from := 0.0, 0
	for i := 0; i <= len(ends); i++ {
		to := len(sorted)
		if i < len(ends) {
			to, _ = slices.BinarySearch(sorted, ends[i])
		}
		if to > from {
			sum += binCost(sorted, from, to, batch)
		}
		from = max(from, to)
	}
	return sum / float64(len(sorted))
}
