package share

import (
	"cmp"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Shares is how many slots of each engine a worker may use.
type Shares = map[rollout.EngineID]int

// bandPart is the part of a pool that a worker may hold above its due before it gives anything up: demand moves all the
// time, and slots that change hands are idle for a moment.
const bandPart = 32

// HandOver computes a worker's next announcement from the slots that it has: fewer if others lack some of their due,
// more if slots are free. A worker never takes slots that another holds, so all shares of an engine stay within its
// limit; they add up to it once every worker has taken its due. others are the other members' last announcements.
func HandOver(d *Division, me string, have Shares, others []Member, engines []enginestate.Engine) Shares {
	next := Shares{}
	free := Free(engines, others)
	for i := range d.Pools {
		p := &d.Pools[i]
		mine := 0
		for _, id := range p.Engines {
			next[id] = min(have[id], free[id])
			mine += next[id]
		}
		switch due := p.Total[me]; {
		case mine > due:
			p.giveUp(next, me, min(mine-due, p.askedBack(mine, due, others)))
		case mine < due:
			p.takeUp(next, me, due-mine, free)
		}
	}
	return next
}

// Free is the rest of each ready engine's limit that the others leave; never below 0.
func Free(engines []enginestate.Engine, others []Member) Shares {
	free := Shares{}
	for _, e := range engines {
		if e.State != enginestate.EngineReady || e.Recalled {
			continue
		}
		left := e.Limit()
		for _, o := range others {
			left -= o.Held[e.ID]
		}
		free[e.ID] = max(0, left)
	}
	return free
}

// askedBack is how many slots a worker above its due must give up: as many as others lack for their requests. Slots
// that no worker lacks stay. A small surplus stays, too, unless a worker has next to nothing.
func (p *Pool) askedBack(mine, due int, others []Member) int {
	lacking, urgent := 0, false
	for _, o := range others {
		held := 0
		for _, id := range p.Engines {
			held += o.Held[id]
		}
		wanted := min(p.Total[o.Worker], p.Demand[o.Worker])
		lacking += max(0, wanted-held)
		urgent = urgent || held < wanted/2 || held == 0 && wanted > 0
	}
	if mine-due <= p.Slots/bandPart && !urgent {
		return 0
	}
	return lacking
}

// giveUp lets go of n slots, where the worker has most above its due.
func (p *Pool) giveUp(next Shares, me string, n int) {
	for n > 0 {
		id := p.most(func(id rollout.EngineID) int { return next[id] - p.Shares[me][id] })
		step := min(p.stride(n), next[id])
		next[id] -= step
		n -= step
	}
}

// stride is how many of n slots are moved at a time: few enough that all engines get their part.
func (p *Pool) stride(n int) int { return max(1, n/(2*len(p.Engines))) }

// takeUp takes n slots that are free, where the worker lacks most.
func (p *Pool) takeUp(next Shares, me string, n int, free Shares) {
	for n > 0 {
		open := func(id rollout.EngineID) bool { return next[id] < free[id] }
		if !slices.ContainsFunc(p.Engines, open) {
			return
		}
		const no = -1 << 31
		id := p.most(func(id rollout.EngineID) int {
			if !open(id) {
				return no
			}
			return p.Shares[me][id] - next[id]
		})
		step := min(p.stride(n), free[id]-next[id])
		next[id] += step
		n -= step
	}
}

// most is the engine for which value is highest, the first of equals.
func (p *Pool) most(value func(rollout.EngineID) int) rollout.EngineID {
	return slices.MaxFunc(p.Engines, func(a, b rollout.EngineID) int {
		return cmp.Or(cmp.Compare(value(a), value(b)), -cmp.Compare(a, b))
	})
}

// Within reduces shares to the room that the others leave, so that slots of an earlier announcement are not used twice.
func Within(shares Shares, others []Member, engines []enginestate.Engine) Shares {
	free := Free(engines, others)
	kept := maps.Clone(shares)
	for id := range kept {
		kept[id] = min(kept[id], free[id])
	}
	return kept
}

// lentPart: a worker may use one in so many of a pool's slots without a share, at least one.
const lentPart = 16

// Limits sets each engine's limit to the worker's share. A worker may have none in a pool: it has no requests yet, the
// others have not given up its due, or there are more workers than slots. It may then have one request at each of a few
// engines all the same, so that its first ones never wait for other workers. So it may with awaitsCertain: a request
// waits for certain engines, and the few slots of a worker with little to do may all be others'.
func Limits(d *Division, me string, shares Shares, engines []enginestate.Engine,
	awaitsCertain bool) []enginestate.Engine {
	limited := byID(engines)
	lent := map[rollout.EngineID]bool{}
	for i := range d.Pools {
		p := &d.Pools[i]
		sum := 0
		for _, id := range p.Engines {
			sum += shares[id]
		}
		if sum > 0 && !awaitsCertain {
			continue
		}
		ranked := slices.SortedFunc(slices.Values(p.Engines), func(a, b rollout.EngineID) int {
			return cmp.Or(cmp.Compare(shares[a], shares[b]),
				-cmp.Compare(rollout.SpreadHash(me, string(a)), rollout.SpreadHash(me, string(b))))
		})
		for _, id := range ranked[:min(len(ranked), max(1, p.Slots/lentPart))] {
			lent[id] = true
		}
	}
	for i := range limited {
		e := &limited[i]
		e.MaxInFlight = shares[e.ID]
		if lent[e.ID] {
			e.MaxInFlight = max(1, e.MaxInFlight)
		}
	}
	return limited
}
