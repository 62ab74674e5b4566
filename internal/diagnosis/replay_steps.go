package diagnosis

import (
	"cmp"
	"math"
	"slices"
)

// replayedStep is one step of a replay.
type replayedStep struct {
	wait, wall float64
	ready      float64 // batches ready when taken
}

// replay plays the given number of steps.
func (p replayModel) replay(steps int) []replayedStep {
	r := replayState{replayModel: p}
	r.launch(0, min(p.depth[0], p.stalenessLimit+1)*p.take[0])
	played := make([]replayedStep, 0, steps)
	end := r.waiting[max(0, min(p.first, len(r.waiting))-1)].ready
	for k := range steps {
		take, depth := looped(p.take, p.stepLoop, k), looped(p.depth, p.stepLoop, k)
		if short := take - len(r.waiting); short > 0 { // a batch grew beyond what is outstanding
			r.launch(end, short)
		}
		start := max(end, r.waiting[take-1].ready)
		ready := r.claim(start, take)
		r.launch(start, min(depth, p.stalenessLimit)*take-len(r.waiting))
		wall := start - end + looped(p.compute, p.stepLoop, k)
		played = append(played, replayedStep{wait: start - end, wall: wall, ready: float64(ready) / float64(take)})
		end += wall
		r.launch(end, min(depth, p.stalenessLimit+1)*take-len(r.waiting))
	}
	return played
}

// looped is values[k], or beyond the end the values from loop on, over and over.
func looped[T any](values []T, loop, k int) T {
	if k < len(values) {
		return values[k]
	}
	return values[loop+(k-loop)%(len(values)-loop)]
}

// replayState is how far one replay has come.
type replayState struct {
	replayModel
	launched int
	free     float64         // when the fleet has worked off everything launched
	waiting  []launchedGroup // by ready time
}

// launchedGroup is a group that has not been taken.
type launchedGroup struct {
	seq   int
	ready float64
}

// launch starts count groups at time now.
func (r *replayState) launch(now float64, count int) {
	for range count {
		r.free = r.worked(max(now, r.free), looped(r.work, r.groupLoop, r.launched))
		g := launchedGroup{r.launched, max(r.free, now+looped(r.latency, r.groupLoop, r.launched))}
		at := len(r.waiting) // mostly they get ready in order; equal ones stay in launch order
		for at > 0 && r.waiting[at-1].ready > g.ready {
			at--
		}
		r.waiting = slices.Insert(r.waiting, at, g)
		r.launched++
	}
}

// worked is when work that begins at now is done.
func (p *replayModel) worked(now, work float64) float64 {
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
func (r *replayState) claim(now float64, take int) (ready int) {
	for ready < len(r.waiting) && r.waiting[ready].ready <= now {
		ready++
	}
	slices.SortFunc(r.waiting[:ready], func(a, b launchedGroup) int { return a.seq - b.seq })
	r.waiting = slices.Delete(r.waiting, 0, take)
	rest := r.waiting[:ready-take]
	slices.SortStableFunc(rest, func(a, b launchedGroup) int { return cmp.Compare(a.ready, b.ready) })
	return ready
}
