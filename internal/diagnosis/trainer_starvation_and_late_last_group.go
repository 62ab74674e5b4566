package diagnosis

import (
	"time"

	"github.com/millrace/millrace/internal/kit/stat"
)

const (
	// starvedShare is the least wait that counts as starvation, as a share of the compute time: polling and hand-over
	// cost a little in every run.
	starvedShare = 0.10
	// minWaitShare is the share of the step time below which a wait does not matter.
	minWaitShare = 0.05
)

// starving reports whether the trainer waits now, and enough to matter.
func (m *measurements) starving() bool {
	return m.starvation != nil && m.starvation.Until == nil && m.starvation.Share >= minWaitShare
}

func (h *history) starved(i int, compute float64) bool {
	return h.steps[i].wait() > starvedShare*compute && !h.steps[i].ending
}

// lastStarvation finds the last stretch of starved steps. It is measured, not inferred: the trainer
// knows that it waited. calm steps without a wait end it.
func (h *history) lastStarvation(calm int) *Starvation {
	n := len(h.steps)
	compute := h.usualCompute()
	last := -1
	for i := range n {
		if h.starved(i, compute) {
			last = i
		}
	}
	if last < 0 {
		return nil
	}
	first, quiet := last, 0
	for i := last - 1; i >= 0 && quiet < calm; i-- {
		if quiet++; h.starved(i, compute) {
			first, quiet = i, 0
		}
	}
	end := n
	if n-1-last >= calm {
		end = last + 1
	}
	return h.starvationOver(first, end, compute)
}

func (h *history) starvationOver(first, end int, compute float64) *Starvation {
	s := &Starvation{Since: h.steps[first].no}
	wall := 0.0
	for i := first; i < end; i++ {
		if h.starved(i, compute) {
			s.Steps++
		}
		s.WaitSec += h.steps[i].wait() / float64(end-first)
		wall += h.steps[i].wall / float64(end-first)
	}
	s.Share = s.WaitSec / wall
	if end < len(h.steps) {
		until := h.steps[end].no
		s.Until = &until
	}
	return s
}

// seconds is so many seconds as a duration.
func seconds(sec float64) time.Duration { return time.Duration(sec * float64(time.Second)) }

// window is a stretch of the service's clock.
type window struct{ from, to time.Time }

// overlap is how many seconds of [from, to) lie in w; none when a time is missing.
func (w window) overlap(from, to time.Time) float64 {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	if from.Before(w.from) {
		from = w.from
	}
	if to.After(w.to) {
		to = w.to
	}
	return max(0, to.Sub(from).Seconds())
}

// lateTail is by how much the batch's last group came later than an even spacing of the arrivals
// would have it: a straggler's part. A fleet that is merely slow delivers evenly.
func (s *step) lateTail() float64 {
	groups := s.view().Groups
	if len(groups) < 4 {
		return 0
	}
	arrivals := make([]float64, 0, len(groups))
	for _, g := range groups {
		arrivals = append(arrivals, g.Times.ReadyAt.Sub(groups[0].Times.ReadyAt).Seconds())
	}
	p90 := stat.Quantile(arrivals, 0.9)
	p0, p100 := stat.Quantile(arrivals, 0), stat.Quantile(arrivals, 1)
	return max(0, min(s.wait(), p100-p90-0.1*(p100-p0)))
}
