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

// bandPart is the part of a pool by which a worker may have more than is due to it before it gives anything up: demand
// moves all the time, and slots that change hands are idle for a moment.
const bandPart = 32

// HandOver is what a worker announces next, having so many slots: fewer where others are short of what is due to them,
// more where slots are free. Nobody takes what somebody else holds, so all shares of an engine stay within its limit;
// they add up to it when everybody has taken what is due. Others is the members without the worker, as they announced
// themselves last.
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

// Free is what the others leave of each ready engine's limit; never less than nothing.
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

// askedBack is how many slots a worker that has more than its due must give up: as many as others lack of what they
// have requests for. What nobody lacks stays where it is. A small surplus does, too, unless somebody has next to
// nothing.
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

// Within is shares, as far as the others leave room: what an announcement that came earlier holds is not used twice.
func Within(shares Shares, others []Member, engines []enginestate.Engine) Shares {
	free := Free(engines, others)
	kept := maps.Clone(shares)
	for id := range kept {
		kept[id] = min(kept[id], free[id])
	}
	return kept
}

// lentPart is the part of a pool's slots that an idle worker may use without a share: one in so many, one at least.
const lentPart = 16

// Limits is the engines with what a worker may have in flight at each: its shares. A worker that has none in a pool,
// because it has no requests yet, the others have not given up what is due to it, or there are more workers than slots,
// may have one request at each of a few engines all the same, so that its first ones never wait for anybody.
func Limits(d *Division, me string, shares Shares, engines []enginestate.Engine) []enginestate.Engine {
	limited := byID(engines)
	lent := map[rollout.EngineID]bool{}
	for i := range d.Pools {
		p := &d.Pools[i]
		sum := 0
		for _, id := range p.Engines {
			sum += shares[id]
		}
		if sum > 0 {
			continue
		}
		ranked := slices.SortedFunc(slices.Values(p.Engines), func(a, b rollout.EngineID) int {
			return -cmp.Compare(rollout.SpreadHash(me, string(a)), rollout.SpreadHash(me, string(b)))
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
