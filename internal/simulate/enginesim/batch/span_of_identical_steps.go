package batch

import "time"

// span is a run of consecutive steps that compute the same sequences: one step with prefill or
// an adapter load, or many that only decode. Each step is longer than the one before by growth.
type span struct {
	start  time.Duration
	first  time.Duration // how long its first step takes
	growth float64       // in nanoseconds: a fast engine's is less than one
	steps  int           // planned
	done   int           // completed
	load   bool          // not a step: the engine loads adapters
}

// boundary is when the n-th step ends; boundary(0) is the start.
func (s *span) boundary(n int) time.Duration {
	k := time.Duration(n)
	return s.start + k*s.first + time.Duration(s.growth*float64(k*(k-1)/2))
}

// completed is how many steps have ended by now.
func (s *span) completed(now time.Duration) int {
	lo, hi := s.done, s.steps
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if s.boundary(mid) <= now {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// cut ends the span at the next boundary, because something may change there.
func (s *span) cut() { s.steps = min(s.steps, s.done+1) }
