package diagnosis

import (
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// places lists the places in the order in which a group passes them.
func places() []Place {
	return []Place{PlaceLaunch, PlaceStart, PlaceQueue, PlaceModel, PlaceEnv, PlaceOther, PlaceHandover, PlaceUnknown}
}

// byPlace is seconds, or shares, by position in places.
type byPlace [8]float64

func (b *byPlace) add(p Place, v float64) { b[slices.Index(places(), p)] += v }

func (b *byPlace) sum() float64 {
	sum := 0.0
	for _, v := range b {
		sum += v
	}
	return sum
}

// waitParts is the mean over the steps of where each wait went; the parts sum to the mean wait.
func (h *history) waitParts(positions []int) []WaitPart {
	var means byPlace
	for _, i := range positions {
		for place, sec := range h.steps[i].waitByPlace() {
			means[place] += sec / float64(len(positions))
		}
	}
	parts := []WaitPart{}
	for i, place := range places() {
		if means[i] != 0 {
			parts = append(parts, WaitPart{place, means[i]})
		}
	}
	return parts
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
	w := window{v.GrantedAt.Add(-seconds(seen)), v.GrantedAt}
	t := last.Times
	parts.add(PlaceHandover, wait-seen+w.overlap(t.ReadyAt, w.to))
	parts.add(PlaceLaunch, w.overlap(w.from, t.LaunchedAt))
	parts.add(PlaceStart, w.overlap(t.LaunchedAt, t.StartedAt))
	playing := w.overlap(t.StartedAt, t.ReadyAt)
	for place, share := range playedShares(last) {
		parts[place] += share * playing
	}
	// Times that are missing or out of order leave a gap; it has no owner.
	parts.add(PlaceUnknown, roundOff(wait-parts.sum(), wait))
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
func lastGroup(groups []rollout.GroupView) *rollout.GroupView {
	var last *rollout.GroupView
	for i := range groups {
		if last == nil || groups[i].Times.ReadyAt.After(last.Times.ReadyAt) {
			last = &groups[i]
		}
	}
	return last
}

// playedShares splits the time from a group's start to its end by its longest episode. Turns are
// not recorded one by one, so the split is the whole episode's.
func playedShares(g *rollout.GroupView) byPlace {
	var shares byPlace
	longest := -1
	for i, sec := range g.EpisodeSec {
		if longest < 0 || sec > g.EpisodeSec[longest] {
			longest = i
		}
	}
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

// valueAt is values[i]; 0 when there is none.
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
	p90 := quantile(arrivals, 0.9)
	p0, p100 := quantile(arrivals, 0), quantile(arrivals, 1)
	return max(0, min(s.wait(), p100-p90-0.1*(p100-p0)))
}
