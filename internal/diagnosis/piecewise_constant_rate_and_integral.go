package diagnosis

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/units"
)

// rateOverTime is a quantity that changes at known times, such as requests in flight, with its integral. It is sorted
// once, so that each look at it costs a search: a run has as many adapter loads as publications times engines.
type rateOverTime struct {
	origin time.Time
	at     []float64 // seconds since the origin, rising
	sum    []float64 // the integral until then
	rate   []float64 // from then on
}

// stretch is a time in which the rate is higher by so much.
type stretch struct {
	from, to time.Time
	rate     float64
}

// integrated adds stretches up. Those without a time of their own count nothing.
func integrated(stretches []stretch) *rateOverTime {
	type edge struct{ at, by float64 }
	r := &rateOverTime{}
	for _, s := range stretches {
		if !s.from.IsZero() && (r.origin.IsZero() || s.from.Before(r.origin)) {
			r.origin = s.from
		}
	}
	edges := make([]edge, 0, 2*len(stretches))
	for _, s := range stretches {
		if s.from.IsZero() || !s.to.After(s.from) {
			continue
		}
		edges = append(edges, edge{s.from.Sub(r.origin).Seconds(), s.rate}, edge{s.to.Sub(r.origin).Seconds(), -s.rate})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	rate, sum := 0.0, 0.0
	for i, e := range edges {
		if i > 0 {
			sum += rate * (e.at - edges[i-1].at)
		}
		rate += e.by
		r.at, r.sum, r.rate = append(r.at, e.at), append(r.sum, sum), append(r.rate, rate)
	}
	return r
}

// mapped derives another quantity: the result of calling of with each time and the rate from then on.
func (r *rateOverTime) mapped(of func(at, rate float64) float64) *rateOverTime {
	out := &rateOverTime{origin: r.origin, at: r.at, sum: make([]float64, len(r.at)), rate: make([]float64, len(r.at))}
	for i, rate := range r.rate {
		out.rate[i] = of(r.at[i], rate)
		if i > 0 {
			out.sum[i] = out.sum[i-1] + out.rate[i-1]*(r.at[i]-r.at[i-1])
		}
	}
	return out
}

// in is the integral over a window.
func (r *rateOverTime) in(from, to time.Time) float64 {
	if from.IsZero() || !to.After(from) || len(r.at) == 0 {
		return 0
	}
	return max(0, r.until(to)-r.until(from))
}

// mean is the mean over a window.
func (r *rateOverTime) mean(from, to time.Time) float64 {
	if sec := units.SecondsBetween(from, to); sec > 0 {
		return r.in(from, to) / sec
	}
	return 0
}

// until is the integral until a time.
func (r *rateOverTime) until(t time.Time) float64 {
	at := t.Sub(r.origin).Seconds()
	i, _ := slices.BinarySearch(r.at, at)
	if i == 0 {
		return 0
	}
	return r.sum[i-1] + r.rate[i-1]*(at-r.at[i-1])
}
