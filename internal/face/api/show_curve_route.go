package api

import (
	"context"

	"github.com/millrace/millrace/internal/diagnosis/runcurve"
	"github.com/millrace/millrace/internal/rollout"
)

// curvePage is how many records are read at a time for a curve, which keeps little of them.
const curvePage = 100

func (s *Server) showCurve(ctx context.Context, in *struct {
	RunPath
	By     string `query:"by" enum:"version,step,time" default:"version" doc:"What a point is"`
	Points int    `query:"points" minimum:"1" maximum:"1000" default:"100" doc:"At most so many"`
}) (runcurve.Curve, error) {
	account, err := s.deps.Store.Account(ctx, in.Run)
	if err != nil {
		return runcurve.Curve{}, err
	}
	var steps []runcurve.Step
	for from := rollout.Step(0); from < account.NextStep; from += curvePage {
		page, err := s.deps.Store.AllSteps(ctx, in.Run, from, curvePage)
		if err != nil {
			return runcurve.Curve{}, err
		}
		for _, record := range page {
			if record.Done {
				steps = append(steps, runcurve.StepOf(record))
			}
		}
	}
	return runcurve.Of(in.Run.Plain(), steps, runcurve.Asked{By: runcurve.Axis(in.By), Most: in.Points}), nil
}
