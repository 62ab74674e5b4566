package changepoint

import (
	"math"
	"slices"
)

// Shift is the difference between two levels with its interval: the Hodges-Lehmann estimate (the
// median of all differences between a new and an old value) and the interval of the rank-sum test.
type Shift struct {
	Estimate float64
	Low      float64
	High     float64
	// Coverage is the interval's confidence, 0.95 or a little more; less when there are too few values
	// for 0.95 (three against three give 0.90 at best).
	Coverage float64
}

const wantedCoverage = 0.95

// exactRankSum bounds the sizes for which the rank-sum distribution is counted out.
const exactRankSum = 25

func shiftBetween(before, after []float64) Shift {
	if len(before) == 0 || len(after) == 0 {
		return Shift{Estimate: math.NaN(), Low: math.NaN(), High: math.NaN()}
	}
	d := make([]float64, 0, len(before)*len(after))
	for _, a := range after {
		for _, b := range before {
			d = append(d, a-b)
		}
	}
	slices.Sort(d)
	drop, coverage := rankSumBounds(len(before), len(after))
	return Shift{Estimate: middle(d), Low: d[drop], High: d[len(d)-1-drop], Coverage: coverage}
}

// rankSumBounds says how many of the smallest and of the largest differences to drop for the wanted
// coverage, and what coverage that gives.
func rankSumBounds(m, n int) (drop int, coverage float64) {
	if m > exactRankSum || n > exactRankSum {
		sd := math.Sqrt(float64(m*n*(m+n+1)) / 12)
		drop = int(float64(m*n)/2 - 1.96*sd)
		return max(0, min(drop, (m*n-1)/2)), wantedCoverage
	}
	p := rankSumDistribution(m, n)
	tail := p[0] // dropping none misses when the statistic is 0
	for drop+1 <= (m*n-1)/2 && 2*(tail+p[drop+1]) <= 1-wantedCoverage {
		drop++
		tail += p[drop]
	}
	return drop, 1 - 2*tail
}

// rankSumDistribution is the probability of each value of the Mann-Whitney statistic of m and n
// values when their levels are equal. It is a Gaussian binomial coefficient, multiplied out factor by factor.
func rankSumDistribution(m, n int) []float64 {
	p := make([]float64, m*n+1)
	p[0] = 1
	for i := 1; i <= m; i++ {
		for u := m * n; u >= n+i; u-- { // times (1 - q^(n+i))
			p[u] -= p[u-n-i]
		}
		for u := i; u <= m*n; u++ { // over (1 - q^i)
			p[u] += p[u-i]
		}
	}
	total := 0.0
	for _, c := range p {
		total += c
	}
	for u := range p {
		p[u] /= total
	}
	return p
}
