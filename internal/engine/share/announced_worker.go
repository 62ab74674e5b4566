package share

import (
	"cmp"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Member is a worker process as it announces itself, several times a second.
type Member struct {
	Worker string                  `json:"-"`
	Demand []enginestate.RunDemand `json:"demand,omitempty"`
	// Held is the slots of each engine that no other worker may use: the worker's share, or its requests in flight
	// while these are more.
	Held map[rollout.EngineID]int `json:"held,omitempty"`
	// Runs is the worker's share of the limits that runs have of their own, on every engine.
	Runs map[rollout.RunName]int `json:"runs,omitempty"`
	// InFlight is the worker's requests at each engine.
	InFlight map[rollout.EngineID]int `json:"in_flight,omitempty"`
}

// sorted is the members by name, each once, with their demand in a fixed order.
func sorted(members []Member) []Member {
	all := slices.Clone(members)
	slices.SortStableFunc(all, func(a, b Member) int { return strings.Compare(a.Worker, b.Worker) })
	all = slices.CompactFunc(all, func(a, b Member) bool { return a.Worker == b.Worker })
	for i := range all {
		all[i].Demand = slices.Clone(all[i].Demand)
		slices.SortStableFunc(all[i].Demand, func(a, b enginestate.RunDemand) int {
			return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Model, b.Model))
		})
	}
	return all
}
