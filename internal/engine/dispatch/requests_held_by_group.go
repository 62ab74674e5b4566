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
// serves them. Requests that no engine serves now are left out, because they could not use a slot.
func (s *Scheduler) Demand() []enginestate.RunDemand {
	type key struct {
		run   rollout.RunName
		model string
	}
	counts := map[key]map[rollout.GroupSeq]int{}
	for _, q := range s.held {
		if l := q.lane; l != nil && l.revision == s.revision && len(l.servers) == 0 {
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
