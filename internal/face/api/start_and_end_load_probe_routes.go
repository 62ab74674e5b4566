package api

import (
	"cmp"
	"context"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/loadprobe"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// probedSteps is how many of the latest step records a probe is planned from.
const probedSteps = 8

// defaultProbeSteps is how many steps a probe lasts by default.
const defaultProbeSteps = 2

// LoadProbeView is a load probe that has begun.
type LoadProbeView struct {
	runstatus.LoadProbe
	InFlight float64 `json:"in_flight_per_engine" doc:"Of this run before the probe, mean per engine"`
}

func (s *Server) probeRun(ctx context.Context, in *struct {
	RunPath
	Body *struct {
		Steps int `json:"steps,omitempty" minimum:"1" maximum:"20" doc:"Whole steps that are played under the limit; 2 if not given"`
		Limit int `json:"max_in_flight_per_engine,omitempty" minimum:"1" maximum:"100000" doc:"Half of what the run has in flight, if not given"`
	}
}) (LoadProbeView, error) {
	steps, limit := defaultProbeSteps, 0
	if in.Body != nil {
		limit = in.Body.Limit
		if in.Body.Steps > 0 {
			steps = in.Body.Steps
		}
	}
	status, err := s.deps.Store.Status(ctx, in.Run)
	if err != nil {
		return LoadProbeView{}, err
	}
	records, err := s.deps.Store.Steps(ctx, in.Run, max(0, status.NextStep-probedSteps), probedSteps)
	if err != nil {
		return LoadProbeView{}, err
	}
	plan, err := loadprobe.Choose(in.Run.Plain(), records, steps)
	if err != nil {
		return LoadProbeView{}, err
	}
	limit = cmp.Or(limit, plan.Limit)
	status, err = s.deps.Control.Probe(ctx, in.Run, runstatus.LoadProbeRequest{Limit: limit, Steps: steps, For: plan.For})
	if err != nil {
		return LoadProbeView{}, err
	}
	changed(ctx, status)
	if status.LoadProbe == nil { // over already
		return LoadProbeView{}, rollout.Refuse(rollout.Conflict, "run %s ended at once", in.Run.Plain())
	}
	return LoadProbeView{*status.LoadProbe, plan.InFlight}, nil
}

func (s *Server) endProbe(ctx context.Context, in *RunPath) (runstatus.RunStatus, error) {
	status, err := s.deps.Control.Probe(ctx, in.Run, runstatus.LoadProbeRequest{End: true, For: time.Second})
	return s.afterChange(ctx, status, err)
}
