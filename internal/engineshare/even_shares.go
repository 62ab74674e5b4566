package engineshare

import (
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// Evenly is the engines with an equal share of each one's limit for worker me, as workers divide them that announce no
// demand. An engine that must give its requests back, because it is quarantined or drained at once, is shown as lost.
//
// The slots left over go round the workers in turn, from ready engine to ready engine, so that no two workers' totals
// differ by more than one. The shares add up to the limit exactly, with one exception: a worker for which no ready
// engine has a slot left gets one all the same. A worker that is not announced yet counts itself in.
func Evenly(engines []rollout.Engine, me string, workers []string) []rollout.Engine {
	n, rank := position(me, workers)
	shared := byID(engines)
	total, next := 0, 0 // next: the rank that gets the next slot left over
	var ready []*rollout.Engine
	for i := range shared {
		e := &shared[i]
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
