package arrivals

import (
	"math"
	"slices"
	"time"
)

// Gaps is what is known of the times between calls.
type Gaps struct {
	Calls, Requests int
	Mean, Median    time.Duration
	Min, Max        time.Duration
	CV              float64 // standard deviation over mean: 1 of a Poisson process, more of bursts
	sorted          []time.Duration
}

// GapsOf measures the times from call to call. A trace of fewer than two calls has none: all of them are zero.
func GapsOf(t Trace) Gaps {
	at, _ := t.Calls()
	g := Gaps{Calls: len(at), Requests: len(t.Arrivals)}
	if len(at) < 2 {
		return g
	}
	var sum, squares float64
	for i, a := range at[1:] {
		gap := a - at[i]
		g.sorted = append(g.sorted, gap)
		sum += gap.Seconds()
		squares += gap.Seconds() * gap.Seconds()
	}
	slices.Sort(g.sorted)
	n := len(g.sorted)
	mean := sum / float64(n)
	g.Mean = time.Duration(math.Round(mean * 1e9))
	g.Median = (g.sorted[(n-1)/2] + g.sorted[n/2]) / 2
	g.Min, g.Max = g.sorted[0], g.sorted[n-1]
	if mean > 0 {
		g.CV = math.Sqrt(max(0, squares/float64(n)-mean*mean)) / mean
	}
	return g
}

// Within is the share of calls whose next one comes no later than a window after them: the probability that waiting so
// long merges two calls, while an engine is idle.
func (g Gaps) Within(window time.Duration) float64 {
	if len(g.sorted) == 0 {
		return 0
	}
	n, _ := slices.BinarySearch(g.sorted, window+1)
	return float64(n) / float64(len(g.sorted))
}
