package web

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/web/pageview"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

func (s *Site) step(ctx context.Context, v *visit) (content, error) {
	run, step := rollout.RunName(v.r.PathValue("run")), v.r.PathValue("step")
	path := runPath(run)
	var record steprecord.StepRecord
	if err := v.api.get(ctx, path+"/steps/"+url.PathEscape(step), &record); err != nil {
		return content{}, err
	}
	var timeline *diagnosis.StepTimeline
	why := ""
	if record.Done {
		var found diagnosis.StepTimeline
		err := v.api.get(ctx, fmt.Sprintf("%s/diagnosis?step=%d", path, record.Step), &found)
		var refused problem
		switch {
		case err == nil:
			timeline = &found
		case errors.As(err, &refused):
			why = refused.Detail
		default:
			return content{}, err
		}
	} else {
		why = "The step is not completed: what the trainer did is known then."
	}
	return content{template: "step", title: fmt.Sprintf("step %d", record.Step), crumbs: crumbsOf(v, run),
		live: !record.Done, data: pageview.StepOf(run, record, timeline, why)}, nil
}
