package dispatch

import (
	"cmp"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

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
