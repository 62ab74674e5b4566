package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/loadprobe"
	"github.com/millrace/millrace/internal/rollout"
)

// probedSteps is how many of the latest step records a probe is planned from.
const probedSteps = 8

// defaultProbeSteps is how many steps a probe lasts if nothing is said.
const defaultProbeSteps = 2

// LoadProbeView is a load probe that has begun.
type LoadProbeView struct {
	rollout.LoadProbe
	InFlight float64 `json:"in_flight_per_engine" doc:"Of this run before the probe, mean per engine"`
}

func (s *Server) registerLoadProbe() {
	huma.Register(s.api, s.operation(post, "/v1/runs/{run}/probe", "probe-run", "runs", "Probe a run's engines",
		"Holds the run's requests in flight to half of what they are, for a few steps: engines that then generate as many "+
			"tokens per second are saturated. The limit is taken back by itself. The steps' records hold what was measured."),
		s.probeRun)
	huma.Register(s.api, s.operation(remove, "/v1/runs/{run}/probe", "end-probe", "runs", "End a probe early",
		"Takes the limit of the probe under way back at once."), s.endProbe)
}

func (s *Server) probeRun(ctx context.Context, in *struct {
	RunPath
	Body *struct {
		Steps int `json:"steps,omitempty" minimum:"1" maximum:"20" doc:"Whole steps that are played under the limit; 2 if not given"`
		Limit int `json:"max_in_flight_per_engine,omitempty" minimum:"1" maximum:"100000" doc:"Half of what the run has in flight, if not given"`
	}
}) (*struct{ Body LoadProbeView }, error) {
	steps, limit := defaultProbeSteps, 0
	if in.Body != nil {
		limit = in.Body.Limit
		if in.Body.Steps > 0 {
			steps = in.Body.Steps
		}
	}
	status, err := s.deps.Store.Status(ctx, in.Run)
	if err != nil {
		return nil, s.fail(ctx, "probe run", err)
	}
	records, err := s.deps.Store.Steps(ctx, in.Run, max(0, status.NextStep-probedSteps), probedSteps)
	if err != nil {
		return nil, s.fail(ctx, "probe run", err)
	}
	plan, err := loadprobe.Choose(in.Run.Plain(), records, steps)
	if err != nil {
		return nil, s.fail(ctx, "probe run", err)
	}
	if limit == 0 {
		limit = plan.Limit
	}
	status, err = s.deps.Control.Probe(ctx, in.Run, rollout.LoadProbeRequest{Limit: limit, Steps: steps, For: plan.For})
	if err != nil {
		return nil, s.fail(ctx, "probe run", err)
	}
	changed(ctx, status)
	if status.LoadProbe == nil { // over already
		return nil, s.fail(ctx, "probe run", rollout.Refuse(rollout.Conflict, "run %s ended at once", in.Run.Plain()))
	}
	return &struct{ Body LoadProbeView }{LoadProbeView{*status.LoadProbe, plan.InFlight}}, nil
}

func (s *Server) endProbe(ctx context.Context, in *RunPath) (*statusBody, error) {
	status, err := s.deps.Control.Probe(ctx, in.Run, rollout.LoadProbeRequest{End: true, For: time.Second})
	if err != nil {
		return nil, s.fail(ctx, "end probe", err)
	}
	changed(ctx, status)
	return &statusBody{s.shown(status)}, nil
}
