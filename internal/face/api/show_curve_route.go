package api

import (
	"context"

	"github.com/millrace/millrace/internal/diagnosis/runcurve"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// curvePage is how many records are read at a time for what keeps little of them.
const curvePage = 100

func (s *Server) showCurve(ctx context.Context, in *struct {
	RunPath
	By     string `query:"by" enum:"version,step,time" default:"version" doc:"What a point is"`
	Points int    `query:"points" minimum:"1" maximum:"1000" default:"100" doc:"At most so many"`
}) (runcurve.Curve, error) {
	var steps []runcurve.Step
	err := s.eachDoneStep(ctx, in.Run, func(r steprecord.StepRecord) { steps = append(steps, runcurve.StepOf(r)) })
	if err != nil {
		return runcurve.Curve{}, err
	}
	of, err := s.deps.Store.Status(ctx, in.Run)
	if err != nil {
		return runcurve.Curve{}, err
	}
	for i := range steps {
		steps[i].From(of.Spec.Evaluation.Version)
	}
	return runcurve.Of(in.Run.Plain(), steps, runcurve.Asked{By: runcurve.Axis(in.By), Most: in.Points}), nil
}

// eachDoneStep reads the records of a run's completed steps, in their order.
func (s *Server) eachDoneStep(ctx context.Context, run rollout.RunName, take func(steprecord.StepRecord)) error {
	account, err := s.deps.Store.Account(ctx, run)
	if err != nil {
		return err
	}
	for from := rollout.Step(0); from < account.NextStep; from += curvePage {
		page, err := s.deps.Store.AllSteps(ctx, run, from, curvePage)
		if err != nil {
			return err
		}
		for _, record := range page {
			if record.Done {
				take(record)
			}
		}
	}
	return nil
}
