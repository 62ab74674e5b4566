package diagnosis

import (
	"cmp"
	"math"
	"slices"
)

// plant is what the recursion is replayed on: the groups and steps as recorded, and what happens
// after the record's end, which is its last level over and over.
//
// Groups are served in the order of their launch by a fleet that works on one at a time with all
// of its capacity, and none is ready sooner than its own latency after its launch. That is the
// pace of any oldest-first fleet and it gives max(C, P, R/D) exactly; what it smooths over is the
// last wave of groups that does not fill the slots.
type plant struct {
	work      []float64 // of each group, in the order of launch
	latency   []float64 // of each group
	groupLoop int       // first group of the last level; from the end on the groups repeat from here
	compute   []float64 // of each step
	stepLoop  int       // first step of the last level
	depth     []int     // of each step
	take      []int     // groups of each step
	capacity  []float64 // work done per second, by window
	until     []float64 // end of each window; the last capacity lasts
	first     int       // groups ready when step 0 may begin
	admitted  int       // batches that staleness lets be outstanding beside the one being trained on; between steps it is one more
}

// turn is one step of a replay.
type turn struct {
	wait, wall float64
	ready      float64 // batches ready when taken
}

// looped is values[k], or beyond the end the values from loop on, over and over.
func looped[T any](values []T, loop, k int) T {
	if k < len(values) {
		return values[k]
	}
	return values[loop+(k-loop)%(len(values)-loop)]
}

// pending is a launched group that has not been taken.
type pending struct {
	seq   int
	ready float64
}

// run is the state of one replay.
type run struct {
	plant
	launched int
	free     float64   // when the fleet has worked off everything launched
	waiting  []pending // by ready time
}

// replay plays the given number of steps.
func (p plant) replay(steps int) []turn {
	r := run{plant: p}
	r.launch(0, min(p.depth[0], p.admitted+1)*p.take[0])
	turns := make([]turn, 0, steps)
	end := r.waiting[max(0, min(p.first, len(r.waiting))-1)].ready
	for k := range steps {
		take, depth := looped(p.take, p.stepLoop, k), looped(p.depth, p.stepLoop, k)
		if short := take - len(r.waiting); short > 0 { // a batch grew beyond what is outstanding
			r.launch(end, short)
		}
		start := max(end, r.waiting[take-1].ready)
		ready := r.claim(start, take)
		r.launch(start, min(depth, p.admitted)*take-len(r.waiting))
		wall := start - end + looped(p.compute, p.stepLoop, k)
		turns = append(turns, turn{wait: start - end, wall: wall, ready: float64(ready) / float64(take)})
		end += wall
		r.launch(end, min(depth, p.admitted+1)*take-len(r.waiting))
	}
	return turns
}

// launch starts count groups at time now.
func (r *run) launch(now float64, count int) {
	for range count {
		r.free = r.worked(max(now, r.free), looped(r.work, r.groupLoop, r.launched))
		g := pending{r.launched, max(r.free, now+looped(r.latency, r.groupLoop, r.launched))}
		at := len(r.waiting) // mostly they get ready in order; equal ones stay in launch order
		for at > 0 && r.waiting[at-1].ready > g.ready {
			at--
		}
		r.waiting = slices.Insert(r.waiting, at, g)
		r.launched++
	}
}

// worked is when work that begins at now is done.
func (p *plant) worked(now, work float64) float64 {
	for i, until := range p.until {
		if now >= until {
			continue
		}
		done := (until - now) * p.capacity[i]
		if done >= work {
			return now + work/p.capacity[i]
		}
		work -= done
		now = until
	}
	last := p.capacity[len(p.capacity)-1]
	if math.IsInf(last, 1) {
		return now
	}
	return now + work/last
}

// claim takes the oldest groups of those ready now and says how many were ready.
func (r *run) claim(now float64, take int) (ready int) {
	for ready < len(r.waiting) && r.waiting[ready].ready <= now {
		ready++
	}
	slices.SortFunc(r.waiting[:ready], func(a, b pending) int { return a.seq - b.seq })
	r.waiting = slices.Delete(r.waiting, 0, take)
	rest := r.waiting[:ready-take]
	slices.SortStableFunc(rest, func(a, b pending) int { return cmp.Compare(a.ready, b.ready) })
	return ready
}
