package dispatch

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// adapterMemory is for how long an adapter counts as in use after its last request was submitted.
const adapterMemory = time.Minute

// places lists the engines that a request's adapter keeps to. nil: it may go anywhere, because every engine has room
// for every adapter, or the room is not known.
func (s *Scheduler) places(q *entry) []rollout.EngineID {
	a := &s.adapters
	if !a.used(q.Model) {
		return nil
	}
	if slots := q.run.rules.AdapterSlots; a.revision != s.revision || a.slots != slots {
		a.place(s.engines, slots)
		a.revision, a.slots = s.revision, slots
	}
	return a.places[q.Model]
}

// adapters is which adapters are in use and which engines each keeps to while they are too many for one engine.
type adapters struct {
	lastUse map[string]time.Time
	staleAt time.Time // no use is forgotten before

	places   map[string][]rollout.EngineID // nil: everywhere; valid for revision and slots
	revision uint64
	slots    int // as a run says; 0: as engines say
}

func (a *adapters) used(model string) bool {
	_, ok := a.lastUse[model]
	return ok
}

// useAdapter notes that a request for a model was submitted, if some engine lists the model as an adapter.
func (s *Scheduler) useAdapter(model string) {
	a := &s.adapters
	if !a.used(model) {
		if !slices.ContainsFunc(s.engines, func(e *engine) bool { return e.adapters[model] }) {
			return
		}
		a.revision = 0 // to be placed again
	}
	a.lastUse[model] = s.now
}

// forgetAdapters drops the adapters that are no longer asked for.
func (s *Scheduler) forgetAdapters() {
	a := &s.adapters
	if s.now.Before(a.staleAt) {
		return
	}
	a.staleAt = s.now.Add(adapterMemory / 4)
	before := len(a.lastUse)
	maps.DeleteFunc(a.lastUse, func(_ string, at time.Time) bool { return s.now.Sub(at) >= adapterMemory })
	if len(a.lastUse) != before {
		a.revision = 0
	}
}

// place gives every adapter at least one engine, and more as far as there are slots for it. No engine gets more
// adapters than it has slots while another has one left. Within that, an adapter keeps to the engines that rank
// highest in a hash of both names, so that the coming and going of others moves few. If every engine has slots for
// all, nothing is placed.
func (a *adapters) place(engines []*engine, slots int) {
	a.places = nil
	total, scarce := 0, false
	left := map[rollout.EngineID]int{}
	for _, e := range engines {
		n := cmp.Or(slots, e.slots, len(a.lastUse)) // an engine that does not tell has room for all
		left[e.id] = n
		total += n
		scarce = scarce || n < len(a.lastUse)
	}
	if !scarce {
		return
	}
	a.places = make(map[string][]rollout.EngineID, len(a.lastUse))
	each := max(1, total/len(a.lastUse))
	for _, model := range slices.Sorted(maps.Keys(a.lastUse)) {
		ranked := slices.DeleteFunc(slices.Clone(engines), func(e *engine) bool { return !e.takes() || !e.models[model] })
		slices.SortFunc(ranked, func(x, y *engine) int {
			return cmp.Or(
				cmp.Compare(min(left[y.id], 1), min(left[x.id], 1)), // those with a slot left, then the least overfull
				-cmp.Compare(rollout.SpreadHash(model, string(x.id)), rollout.SpreadHash(model, string(y.id))),
			)
		})
		for i, e := range ranked[:min(each, len(ranked))] {
			if i > 0 && left[e.id] <= 0 {
				break
			}
			a.places[model] = append(a.places[model], e.id)
			left[e.id]--
		}
	}
}
