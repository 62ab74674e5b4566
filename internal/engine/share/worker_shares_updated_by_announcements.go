package share

import (
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Holder is one worker's shares of the engines' limits and of the runs' own limits, and how it reacts to announcements.
// Its driver announces Held several times a second, passes on the others' announcements, and announces once more
// whenever Heard asks for it.
type Holder struct {
	Worker   string
	Shares   Shares
	Runs     map[rollout.RunName]int // limits on every engine
	Division Division                // what was due when the others were heard last
	// AwaitsCertain says that a request waits for certain engines, where the worker may have no slot.
	AwaitsCertain bool
	next          Shares // to be announced
	others        []Member
	heard         bool
	waits         time.Time // no slots are taken up before
}

// waitFor is for how long a worker takes up no slots when its announcement did not hold until the next one: as after
// an outage of Redis, when the others have not announced yet what they hold.
const waitFor = time.Second

// Heard takes in what the others have announced. continued reports whether the worker's own announcement still held.
// What is given up is given up at once; again asks to announce once more, and to call Taken with the answer.
func (h *Holder) Heard(now time.Time, engines []enginestate.Engine, others []Member, demand []enginestate.RunDemand,
	most map[rollout.RunName]int, continued bool) (again bool) {
	if h.heard && !continued {
		h.waits = now.Add(waitFor)
	}
	h.heard = true
	h.others = others
	members := append(slices.Clone(others), Member{Worker: h.Worker, Demand: demand})
	h.Division = Divide(engines, members, most)
	h.Runs = RunLimits(&h.Division, h.Worker, members, most)
	h.next = HandOver(&h.Division, h.Worker, h.Shares, others, engines)
	if now.Before(h.waits) {
		h.next = fewer(h.next, h.Shares)
	}
	if maps.Equal(h.next, h.Shares) {
		h.next = nil
		return false
	}
	h.Shares = fewer(h.next, h.Shares)
	return true
}

// Taken handles the others' announcements at the time of the worker's own: a slot belongs to the first to announce it.
func (h *Holder) Taken(engines []enginestate.Engine, others []Member) {
	h.Shares = Within(h.next, others, engines)
	h.next = nil
}

// Limited is the engines with the worker's limits, and the load of others.
func (h *Holder) Limited(engines []enginestate.Engine) []enginestate.Engine {
	limited := Limits(&h.Division, h.Worker, h.Shares, engines, h.AwaitsCertain)
	for i := range limited {
		e, n := &limited[i], 0
		for _, o := range h.others {
			n += o.InFlight[e.ID]
		}
		if n > 0 {
			e.Elsewhere = 1 << (bits.Len(uint(n)) - 1) // by powers of two, so that it does not change all the time
		}
	}
	return limited
}

// Held is the slots that no other worker may use: the shares, including those about to be taken up, or the requests in
// flight if these are more.
func (h *Holder) Held(inFlight map[rollout.EngineID]int) map[rollout.EngineID]int {
	held := maps.Clone(inFlight)
	if held == nil {
		held = map[rollout.EngineID]int{}
	}
	for id, n := range h.Shares {
		held[id] = max(held[id], n)
	}
	for id, n := range h.next {
		held[id] = max(held[id], n)
	}
	return held
}

// fewer is next, bounded by was.
func fewer(next, was Shares) Shares {
	least := Shares{}
	for id, n := range next {
		least[id] = min(n, was[id])
	}
	return least
}
