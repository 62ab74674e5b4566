// Package arrivals is what arrives in an open-loop experiment: requests by their lengths, from a trace file or an
// arrival process.
//
// Start reading at Arrivals.
package arrivals

import (
	"slices"
	"time"
)

// Arrival is one request of an open-loop experiment: it comes when it comes, whatever became of those before it.
type Arrival struct {
	At             time.Duration
	Prompt, Output int // tokens; 0: the trace does not say
	// Call is which call of a client the request came in, counted from 0: requests of one call arrive together.
	Call int
}

// Trace is arrivals in order of time.
type Trace struct {
	Name     string // of the file, or of the process that they were drawn from
	Arrivals []Arrival
}

// Limit is the first n arrivals; 0: all.
func (t Trace) Limit(n int) Trace {
	if n > 0 && n < len(t.Arrivals) {
		t.Arrivals = t.Arrivals[:n]
	}
	return t
}

// Faster is the same arrivals in a shorter time: every time is divided by factor.
func (t Trace) Faster(factor float64) Trace {
	faster := Trace{Name: t.Name, Arrivals: make([]Arrival, len(t.Arrivals))}
	for i, a := range t.Arrivals {
		a.At = time.Duration(float64(a.At) / factor)
		faster.Arrivals[i] = a
	}
	return faster
}

// FromFirst is the same arrivals on a clock that starts with the first of them.
func (t Trace) FromFirst() Trace {
	later := Trace{Name: t.Name, Arrivals: slices.Clone(t.Arrivals)}
	for i := range later.Arrivals {
		later.Arrivals[i].At -= t.Arrivals[0].At
	}
	return later
}

// hasLengths reports whether a trace says how long requests are.
func (t Trace) hasLengths() bool {
	return slices.ContainsFunc(t.Arrivals, func(a Arrival) bool { return a.Prompt > 0 || a.Output > 0 })
}

// Calls is when each call came, and how many requests it had.
func (t Trace) Calls() (at []time.Duration, sizes []int) {
	for i, a := range t.Arrivals {
		if i == 0 || a.Call != t.Arrivals[i-1].Call {
			at, sizes = append(at, a.At), append(sizes, 0)
		}
		sizes[len(sizes)-1]++
	}
	return at, sizes
}
