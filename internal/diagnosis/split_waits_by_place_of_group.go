package diagnosis

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

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
		seen = min(wait, max(0, units.SecondsBetween(v.FirstAskedAt, v.GrantedAt)))
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
	longest := g.LongestEpisode()
	span := units.SecondsBetween(g.Times.StartedAt, g.Times.ReadyAt)
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
