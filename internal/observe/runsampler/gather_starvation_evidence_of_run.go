package runsampler

import (
	"cmp"
	"context"
	"slices"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/scaling/supply"
	"github.com/millrace/millrace/internal/store/starvation"
)

// evidence is the state of a run's missing groups.
func (s *Sampler) evidence(ctx context.Context, run runstatus.RunStatus) (starvation.Evidence, error) {
	awaited, err := s.buffer.Awaited(ctx, run.Spec.Name, mostAwaited)
	if err != nil {
		return starvation.Evidence{}, err
	}
	e := starvation.Evidence{
		Need: awaited.Need, Ready: awaited.Ready, Launch: awaited.Launch,
		Samples: run.Spec.Group.Samples, Engines: s.engines, Starting: starting(s.scaling, s.engines),
	}
	for _, g := range awaited.Playing {
		e.Playing = append(e.Playing, starvation.Group(g))
	}
	for _, w := range s.alive {
		if w.State != enginestate.WorkerAlive || w.Requests == nil {
			continue
		}
		e.Reported = true
		c := w.Requests[run.Spec.Name]
		e.Requests.Queued += c.Queued
		e.Requests.InFlight += c.InFlight
	}
	for _, p := range run.Policies {
		switch p.State {
		case runstatus.PolicyServing:
			e.Adapters = []string{p.Adapter} // the newest
		case runstatus.PolicyLoading:
			e.Loading = append(e.Loading, p.Adapter)
		case runstatus.PolicyRejected, runstatus.PolicyRetired:
		}
	}
	return e, nil
}

// starting is the requests at a time that engines will take which were bought and are not in the fleet yet.
func starting(v *supply.View, engines []enginestate.Engine) int {
	if v == nil {
		return 0
	}
	places := 0
	for i := range v.Engines {
		bought := &v.Engines[i]
		known := slices.ContainsFunc(engines, func(e enginestate.Engine) bool { return e.ID == bought.ID })
		if bought.State == enginestate.EngineStarting && !known {
			places += cmp.Or(bought.Instance.MaxInFlight, v.Sample.Slots, fleet.DefaultMaxInFlight)
		}
	}
	return places
}

// mostAwaited bounds how many groups of a batch are looked at.
const mostAwaited = 256
