package server

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/aplquery"
	"github.com/millrace/millrace/internal/diagnosis/diagnosisinput"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// diagnoses answers what the API is asked about where the time of a run's steps goes.
type diagnoses struct {
	inputs  diagnosisinput.Reader
	dataset string // of Axiom; empty: the usual one
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
	return aplquery.WithQueries(diagnosis.Diagnose(in), d.dataset, spanOf(in.Records)), nil
}

// spanOf is when the steps were made.
func spanOf(records []steprecord.StepRecord) [2]time.Time {
	if len(records) == 0 {
		return [2]time.Time{}
	}
	return [2]time.Time{records[0].Service.FirstAskedAt, records[len(records)-1].Service.CompletedAt}
}
