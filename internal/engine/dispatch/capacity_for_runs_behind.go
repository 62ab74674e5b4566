package dispatch

import (
	"cmp"
	"maps"
)

// What a run that goes behind may use of an engine, as parts of its window. Beside the requests of others it has few in
// flight, for each makes the engine's steps a little longer; and it leaves some places free, where a request of another
// run goes at once.
const (
	besideOthers = 32 // a part: requests in flight while others have some there
	alone        = 4  // a part: while they have none
	keptFree     = 4  // a part: places left to the others
)

// roomBehind reports whether the engine has a place for one more request that goes behind.
func (e *engine) roomBehind() bool {
	behind := 0
	for r, n := range e.perRun {
		if r.rules.Behind {
			behind += n
		}
	}
	most := e.window / besideOthers
	if behind == len(e.inFlight) && e.elsewhere == 0 {
		most = e.window / alone
	}
	free := min(e.window-1, (e.window+keptFree-1)/keptFree)
	return behind < max(1, most) && len(e.inFlight) < e.window-free && e.sample.tight == 0 && e.sample.memory < softMemory
}

// roomForAdapter is the engines that could have a lane's adapter in their batch, beside those of the requests that they
// have and of all that other runs have queued.
func (s *Scheduler) roomForAdapter(l *lane, servers []*engine) []*engine {
	var able []*engine
	for _, e := range servers {
		slots := cmp.Or(l.run.rules.AdapterSlots, e.slots)
		if slots == 0 || !e.adapters[l.model] || len(s.adaptersBeside(e, l.model)) <= slots {
			able = append(able, e)
		}
	}
	return able
}

// adaptersBeside is the adapters that an engine needs, with one more.
func (s *Scheduler) adaptersBeside(e *engine, more string) map[string]bool {
	used := map[string]bool{more: true}
	for _, q := range e.inFlight {
		used[q.Model] = used[q.Model] || e.adapters[q.Model]
	}
	for _, r := range s.runs {
		for _, l := range r.lanes {
			if !r.rules.Behind && e.adapters[l.model] {
				used[l.model] = true
			}
		}
	}
	maps.DeleteFunc(used, func(_ string, is bool) bool { return !is })
	return used
}
