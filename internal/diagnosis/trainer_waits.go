package diagnosis

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout/steprecord"
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

// places lists the places in the order in which a group passes them.
func places() []Place {
	return []Place{PlaceLaunch, PlaceStart, PlaceQueue, PlaceModel, PlaceEnv, PlaceOther, PlaceHandover, PlaceUnknown}
}

// byPlace is seconds, or shares, by position in places.
type byPlace [8]float64

func (b *byPlace) add(p Place, v float64) { b[slices.Index(places(), p)] += v }

// waitParts is the mean over the steps of where each wait went; the parts sum to the mean wait.
func (h *history) waitParts(positions []int) []WaitPart {
	var means byPlace
	for _, i := range positions {
		for place, sec := range h.steps[i].waitByPlace() {
			means[place] += sec / float64(len(positions))
		}
	}
	return append([]WaitPart{}, means.parts()...)
}

// waitByPlace lays the timeline of the group that completed the batch over the wait. What the
// trainer waited longer than the service saw it waiting is hand-over: polling and the answer's delivery.
func (s *step) waitByPlace() byPlace {
	var parts byPlace
	wait := s.wait()
	if wait <= 0 {
		return parts
	}
	v := s.view()
	last := lastGroup(v.Groups)
	if last == nil || v.GrantedAt.IsZero() || last.Times.ReadyAt.IsZero() {
		parts.add(PlaceUnknown, wait)
		return parts
	}
	seen := wait
	if !v.FirstAskedAt.IsZero() {
		seen = min(wait, max(0, secondsBetween(v.FirstAskedAt, v.GrantedAt)))
	}
	parts = placesIn(window{v.GrantedAt.Add(-seconds(seen)), v.GrantedAt}, last)
	parts.add(PlaceHandover, wait-seen)
	// Times that are missing or out of order leave a gap; it has no owner.
	parts.add(PlaceUnknown, roundOff(wait-floats.Sum(parts[:]), wait))
	return parts
}

// roundOff drops what is only a rounding of the clock, which counts in nanoseconds.
func roundOff(rest, of float64) float64 {
	if math.Abs(rest) < 1e-9+1e-9*of {
		return 0
	}
	return rest
}

// lastGroup is the group that completed the batch.
func lastGroup(groups []steprecord.GroupView) *steprecord.GroupView {
	var last *steprecord.GroupView
	for i := range groups {
		if last == nil || groups[i].Times.ReadyAt.After(last.Times.ReadyAt) {
			last = &groups[i]
		}
	}
	return last
}

// playedShares splits the time from a group's start to its end by its longest episode. Turns are
// not recorded one by one, so the split is the whole episode's.
func playedShares(g *steprecord.GroupView) byPlace {
	var shares byPlace
	longest := slowestEpisode(g)
	span := secondsBetween(g.Times.StartedAt, g.Times.ReadyAt)
	if longest < 0 || span <= 0 {
		shares.add(PlaceUnknown, 1)
		return shares
	}
	queue, model, env := valueAt(g.QueueSec, longest), valueAt(g.ModelSec, longest), valueAt(g.EnvSec, longest)
	span = max(span, queue+model+env) // critical paths of overlapping turns can exceed the wall time
	shares.add(PlaceQueue, queue/span)
	shares.add(PlaceModel, model/span)
	shares.add(PlaceEnv, env/span)
	shares.add(PlaceOther, 1-(queue+model+env)/span)
	return shares
}

// valueAt is values[i], or 0 beyond the end.
func valueAt(values []float64, i int) float64 {
	if i < len(values) {
		return values[i]
	}
	return 0
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
