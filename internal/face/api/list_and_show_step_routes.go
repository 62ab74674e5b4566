package api

import (
	"context"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// StepList is a page of step records.
type StepList struct {
	Steps []steprecord.StepRecord `json:"steps"`
	Next  *rollout.Step           `json:"next,omitempty" doc:"Ask again from here: there may be more"`
}

func (s *Server) listSteps(ctx context.Context, in *struct {
	RunPath
	From  rollout.Step `query:"from" minimum:"0" doc:"First step"`
	Limit int          `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}) (StepList, error) {
	steps, next, err := s.steps(ctx, in.Run, in.From, in.Limit)
	return StepList{listed(steps), next}, err
}

// stepsPage is how many records are read at a time.
const stepsPage = 16

// steps reads records page by page until they are enough for one answer; next is where there may be more, nil at
// the end.
func (s *Server) steps(ctx context.Context, run rollout.RunName, from rollout.Step,
	limit int) (steps []steprecord.StepRecord, next *rollout.Step, err error) {
	account, err := s.deps.Store.Account(ctx, run)
	if err != nil {
		return nil, nil, err
	}
	for size := 0; from < account.ClaimedTo; {
		page, err := s.deps.Store.AllSteps(ctx, run, from, stepsPage)
		if err != nil {
			return nil, nil, err
		}
		for _, record := range page {
			if size += recordBytes(record); size > answerBytes && len(steps) > 0 {
				return steps, &record.Step, nil
			}
			if steps = append(steps, record); len(steps) == limit {
				after := record.Step + 1
				return steps, &after, nil
			}
		}
		from += stepsPage // A page may have holes, from before the buffer was restored.
	}
	return steps, nil, nil
}

// recordBytes is about how long a record is as JSON.
func recordBytes(r steprecord.StepRecord) int {
	size := 2 << 10
	for name := range r.Trainer.Metrics {
		size += len(name) + 24
	}
	for _, g := range r.Service.Groups {
		size += 512 + 24*4*len(g.EpisodeSec)
	}
	return size
}

func (s *Server) showStep(ctx context.Context, in *StepPath) (steprecord.StepRecord, error) {
	return s.deps.Store.Step(ctx, in.Run, in.Step)
}
