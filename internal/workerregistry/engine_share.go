package workerregistry

import (
	"cmp"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// Share is the engines with the part of each one's limit that worker me may use. Every worker computes the same
// division from the same members, so nothing is negotiated. An engine that must give its requests back, because it
// is quarantined or drained at once, is shown as lost.
//
// An engine's limit is divided evenly; the slots left over go round the workers in turn, from ready engine to ready
// engine, so that no two workers' totals differ by more than one. The parts add up to the limit exactly, with one
// exception: a worker for which no ready engine has a slot left gets one all the same, for its games would stand
// still; then the fleet's limits are exceeded by at most one request per such worker. While workers or engines come
// and go, a worker may hold requests of its former part until they finish. A worker that is not announced yet
// counts itself in.
func Share(engines []rollout.Engine, me string, workers []string) []rollout.Engine {
	n, rank := position(me, workers)
	shared := slices.Clone(engines)
	slices.SortFunc(shared, func(a, b rollout.Engine) int { return cmp.Compare(a.ID, b.ID) })
	total, next := 0, 0 // next: the rank that gets the next slot left over
	var ready []*rollout.Engine
	for i := range shared {
		e := &shared[i]
		if e.Recalled {
			e.State = rollout.EngineLost
		}
		part, left := e.Limit()/n, e.Limit()%n
		if (rank-next+n)%n < left {
			part++
		}
		e.MaxInFlight = part
		if e.State == rollout.EngineReady {
			next = (next + left) % n
			total += part
			ready = append(ready, e)
		}
	}
	if total == 0 && len(ready) > 0 {
		ready[rank%len(ready)].MaxInFlight = 1
	}
	return shared
}

// position is how many workers there are, and which of them, in order, is me.
func position(me string, workers []string) (n, rank int) {
	all := slices.Clone(workers)
	all = append(all, me)
	slices.Sort(all)
	all = slices.Compact(all)
	return len(all), slices.Index(all, me)
}
