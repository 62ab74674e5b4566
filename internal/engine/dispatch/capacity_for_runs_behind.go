package dispatch

import "cmp"

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

// roomForAdapter is the engines that could have a lane's adapter in their batch beside all that other runs use.
func (s *Scheduler) roomForAdapter(l *lane, servers []*engine) []*engine {
	var able []*engine
	for _, e := range servers {
		slots := cmp.Or(l.run.rules.AdapterSlots, e.slots)
		if slots == 0 || !e.adapters[l.model] || len(s.adapters.lastUse)+e.adaptersBehind(l.model) <= slots {
			able = append(able, e)
		}
	}
	return able
}

// adaptersBehind counts the adapters of requests in flight that go behind, with one more.
func (e *engine) adaptersBehind(more string) int {
	used := map[string]bool{more: true}
	for _, q := range e.inFlight {
		if q.run.rules.Behind && e.adapters[q.Model] {
			used[q.Model] = true
		}
	}
	return len(used)
}
