package share

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Division is how many slots of each engine every worker is to have.
type Division struct {
	Pools []Pool
}

// Pool is ready engines that serve the same of what workers ask for, so that one is as good as another.
type Pool struct {
	Engines []rollout.EngineID
	Limits  []int    // of each engine
	Slots   int      // the sum
	models  []string // asked for that they serve
	// By worker, the idle ones included.
	Demand map[string]int                      // requests that these engines are to serve
	Total  map[string]int                      // slots in all; they add up to Slots
	Shares map[string]map[rollout.EngineID]int // slots of each engine; they add up to its limit
	ByRun  map[string]map[rollout.RunName]int  // slots that are due to each run's requests
}

// Divide divides the limits of the ready engines among the members, in this order:
//
//   - every worker that has requests is given a slot for each, up to an eighth of an equal share, at least one: nobody
//     starves, whoever's groups are older;
//   - runs are given equally many slots, as far as they have requests and their own limits, most on each engine, allow;
//   - within a run its oldest requests are: those of older groups first, and of one group's as many of each worker;
//   - slots that no request needs are divided equally among all workers, so that new requests find some.
//
// All shares of an engine add up to its limit. It does not depend on the order of the arguments.
func Divide(engines []enginestate.Engine, members []Member, most map[rollout.RunName]int) Division {
	members = sorted(members)
	d := Division{Pools: pools(byID(engines), members)}
	wants := d.wants(members)
	carried := make([]int, len(members)) // slots given so far: the odd slot goes to another member each time
	for i := range d.Pools {
		p := &d.Pools[i]
		caps := map[rollout.RunName]int{}
		for run, limit := range most {
			if limit > 0 {
				caps[run] = limit * len(p.Engines)
			}
		}
		given := allot(p.Slots, len(members), wants[i], caps, carried)
		p.take(members, wants[i], given)
		for m := range members {
			carried[m] += given.total[m]
		}
	}
	return d
}

// take notes what was allotted to the members, and spreads it over the engines.
func (p *Pool) take(members []Member, wants []want, given allotment) {
	cells := spread(given.total, p.Limits, func(m, e int) uint64 {
		return rollout.SpreadHash(members[m].Worker, string(p.Engines[e]))
	})
	p.Demand, p.Total = map[string]int{}, map[string]int{}
	p.Shares, p.ByRun = map[string]map[rollout.EngineID]int{}, map[string]map[rollout.RunName]int{}
	for m, member := range members {
		p.Total[member.Worker] = given.total[m]
		p.ByRun[member.Worker] = given.byRun[m]
		shares := make(map[rollout.EngineID]int, len(p.Engines))
		for e, id := range p.Engines {
			shares[id] = cells[m][e]
		}
		p.Shares[member.Worker] = shares
	}
	for _, w := range wants {
		p.Demand[members[w.member].Worker] += w.requests
	}
}

// pools puts together the ready engines that serve the same of the models asked for.
func pools(engines []enginestate.Engine, members []Member) []Pool {
	var asked []string
	for _, m := range members {
		for _, d := range m.Demand {
			asked = append(asked, d.Model)
		}
	}
	slices.Sort(asked)
	asked = slices.Compact(asked)
	var all []Pool
	at := map[string]int{}
	for _, e := range engines {
		if e.State != enginestate.EngineReady || e.Limit() <= 0 {
			continue
		}
		served := make([]byte, len(asked))
		for i, model := range asked {
			if serves(&e, model) {
				served[i] = 1
			}
		}
		i, known := at[string(served)]
		if !known {
			i = len(all)
			at[string(served)] = i
			all = append(all, Pool{})
		}
		p := &all[i]
		p.Engines, p.Limits = append(p.Engines, e.ID), append(p.Limits, e.Limit())
		p.Slots += e.Limit()
	}
	for model := range asked {
		for key, i := range at {
			if key[model] == 1 {
				all[i].models = append(all[i].models, asked[model])
			}
		}
	}
	return all
}

func serves(e *enginestate.Engine, model string) bool {
	return slices.Contains(e.Models, model) || slices.Contains(e.Adapters, model)
}

// want is requests of one member, run and group that a pool is to serve.
type want struct {
	member   int
	run      rollout.RunName
	seq      rollout.GroupSeq
	requests int
}

// wants is the requests that every pool is to serve. Those that several can serve are divided by the pools' slots.
func (d *Division) wants(members []Member) [][]want {
	wants := make([][]want, len(d.Pools))
	for m, member := range members {
		k := uint64(m) // so that the single requests of many members do not all go the same way
		for _, demand := range member.Demand {
			var able []int
			slots := 0
			for i := range d.Pools {
				if slices.Contains(d.Pools[i].models, demand.Model) {
					able = append(able, i)
					slots += d.Pools[i].Slots
				}
			}
			for _, g := range demand.Groups {
				if len(able) == 0 || g.Requests <= 0 {
					continue
				}
				parts := d.partition(able, slots, g.Requests, &k)
				for j, i := range able {
					if parts[j] > 0 {
						wants[i] = append(wants[i], want{m, demand.Run, g.Seq, parts[j]})
					}
				}
			}
		}
	}
	return wants
}

// partition is how many of n requests go to each pool that can serve them: one after the other falls on a slot of all
// theirs, and k is how many have fallen. The golden ratio spreads them evenly, however few they are.
func (d *Division) partition(able []int, slots, n int, k *uint64) []int {
	parts := make([]int, len(able))
	if len(able) == 1 {
		parts[0] = n
		return parts
	}
	for range n {
		const golden = 0x9E3779B97F4A7C15
		*k++
		high, _ := bits.Mul64(*k*golden, uint64(slots))
		slot := int(high)
		for j, i := range able {
			if slot -= d.Pools[i].Slots; slot < 0 {
				parts[j]++
				break
			}
		}
	}
	return parts
}

// byID is the engines in order, those whose requests must be given back as lost ones.
func byID(engines []enginestate.Engine) []enginestate.Engine {
	all := slices.Clone(engines)
	slices.SortFunc(all, func(a, b enginestate.Engine) int { return cmp.Compare(a.ID, b.ID) })
	for i := range all {
		if all[i].Recalled {
			all[i].State = enginestate.EngineLost
		}
	}
	return all
}
