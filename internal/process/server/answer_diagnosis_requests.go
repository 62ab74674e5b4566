package server

import (
	"context"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/diagnosisinput"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
)

// diagnoses answers what the API is asked about where the time of a run's steps goes.
type diagnoses struct {
	inputs diagnosisinput.Reader
}

// stepsAround is how many steps on each side of one are read to tell what is usual.
const stepsAround = 100

func (d diagnoses) answer(ctx context.Context, run rollout.RunName, asked api.DiagnosisQuery) (any, error) {
	if asked.Step != nil {
		first, last := max(0, *asked.Step-stepsAround), *asked.Step+stepsAround
		in, err := d.inputs.Read(ctx, run, diagnosisinput.Steps{First: &first, Last: &last})
		if err != nil {
			return nil, err
		}
		step, ok := diagnosis.TimelineOf(in, *asked.Step)
		if !ok {
			return nil, rollout.Refuse(rollout.NoSuchStep, "step %d of run %s is not completed", *asked.Step, run)
		}
		return step, nil
	}
	in, err := d.inputs.Read(ctx, run, diagnosisinput.Steps{First: asked.First, Last: asked.Last})
	if err != nil {
		return nil, err
	}
	return diagnosis.Diagnose(in), nil
}
