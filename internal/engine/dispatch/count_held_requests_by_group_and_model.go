package dispatch

import (
	"cmp"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// mostGroups bounds how many groups of a run and model are listed separately.
const mostGroups = 32

// Demand counts the requests held, by run, model and group: those in flight, and those that wait for an engine that
// serves them. Requests that no engine serves now are left out, because they could not use a slot, and those of runs
// that go behind, because no slot is given up for them.
func (s *Scheduler) Demand() []enginestate.RunDemand {
	type key struct {
		run   rollout.RunName
		model string
	}
	counts := map[key]map[rollout.GroupSeq]int{}
	for _, q := range s.held {
		if l := q.lane; q.run.rules.Behind || l != nil && l.revision == s.revision && len(l.servers) == 0 {
			continue
		}
		k := key{q.run.name, q.Model}
		if counts[k] == nil {
			counts[k] = map[rollout.GroupSeq]int{}
		}
		counts[k][q.Episode.Seq]++
	}
	demand := make([]enginestate.RunDemand, 0, len(counts))
	for k, groups := range counts {
		demand = append(demand, enginestate.RunDemand{Run: k.run, Model: k.model, Groups: byAge(groups)})
	}
	slices.SortFunc(demand, func(a, b enginestate.RunDemand) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Model, b.Model))
	})
	return demand
}

// AwaitsCertain reports whether a request waits for certain engines, where the worker may have no slot: for another one
// than that which refused or failed it, or for the one in whose queue it is.
func (s *Scheduler) AwaitsCertain() bool {
	for _, q := range s.held {
		switch l := q.lane; {
		case l == nil:
		case q.refusedBy != "" || q.avoid != "":
			return true
		case l.home != "":
			if e := s.find(l.home); e != nil && e.limit <= 1 { // one may be lent
				return true
			}
		}
	}
	return false
}

// byAge is requests by group, the oldest first; neighbours together where there are too many.
func byAge(groups map[rollout.GroupSeq]int) []enginestate.GroupDemand {
	all := make([]enginestate.GroupDemand, 0, len(groups))
	for seq, n := range groups {
		all = append(all, enginestate.GroupDemand{Seq: seq, Requests: n})
	}
	slices.SortFunc(all, func(a, b enginestate.GroupDemand) int { return cmp.Compare(a.Seq, b.Seq) })
	if len(all) <= mostGroups {
		return all
	}
	each := (len(all) + mostGroups - 1) / mostGroups
	together := make([]enginestate.GroupDemand, 0, mostGroups)
	for some := range slices.Chunk(all, each) {
		sum := enginestate.GroupDemand{Seq: some[0].Seq}
		for _, g := range some {
			sum.Requests += g.Requests
		}
		together = append(together, sum)
	}
	return together
}

// ModelUses is the requests held by run and model: how many wait, and how many are in flight at which engine.
func (s *Scheduler) ModelUses() []enginestate.ModelUse {
	type key struct {
		run   rollout.RunName
		model string
	}
	uses := map[key]*enginestate.ModelUse{}
	use := func(q *entry) *enginestate.ModelUse {
		k := key{q.run.name, q.Model}
		if uses[k] == nil {
			uses[k] = &enginestate.ModelUse{Run: k.run, Model: k.model, InFlight: map[rollout.EngineID]int{}}
		}
		return uses[k]
	}
	for _, q := range s.held {
		use(q).Queued++
	}
	for _, e := range s.engines {
		for _, q := range e.inFlight {
			u := use(q)
			u.Queued--
			u.InFlight[e.id]++
		}
	}
	all := make([]enginestate.ModelUse, 0, len(uses))
	for _, u := range uses {
		all = append(all, *u)
	}
	slices.SortFunc(all, func(a, b enginestate.ModelUse) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Model, b.Model))
	})
	return all
}
