package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/control/evaluation"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// EvaluationList is what the evaluations of a run tell.
type EvaluationList struct {
	Evaluations []evaluation.Result `json:"evaluations"`
	Notes       []string            `json:"notes,omitempty" doc:"Why what the spec wants now cannot be played"`
}

func (s *Server) registerEvaluations() {
	start := s.operation("start-evaluation")
	start.DefaultStatus = http.StatusCreated
	start.Responses["200"] = &huma.Response{Description: "It was there already", Content: map[string]*huma.MediaType{
		"application/json": {Schema: schemaOf[runstatus.RunStatus](s)}}}
	huma.Register(s.api, start, s.startEvaluation)
	answered(s, "list-evaluations", s.listEvaluations)
}

func (s *Server) startEvaluation(ctx context.Context, in *struct {
	RunPath
	Body evaluation.Asked
}) (*startedBody, error) {
	of, err := s.deps.Store.Status(ctx, in.Run)
	if err != nil {
		return nil, s.fail(ctx, "start evaluation", err)
	}
	spec, err := evaluation.Spec(of, in.Body)
	if err != nil {
		return nil, s.fail(ctx, "start evaluation", err)
	}
	if err := s.askedOtherwise(ctx, spec); err != nil {
		return nil, s.fail(ctx, "start evaluation", err)
	}
	return s.startSpec(ctx, spec)
}

// askedOtherwise refuses a question that was asked with other games, another half width or another model of the same
// name: it has been answered, or is.
func (s *Server) askedOtherwise(ctx context.Context, spec runspec.Spec) error {
	id, err := s.deps.Store.ID(ctx, spec.Name)
	if err != nil {
		return err
	}
	there, err := s.deps.Store.Status(ctx, id)
	if err == nil && (there.Spec.Evaluation != spec.Evaluation || there.Spec.Steps != spec.Steps ||
		there.Spec.Buffer.GroupsPerStep != spec.Buffer.GroupsPerStep || !slices.Equal(there.Spec.Policies, spec.Policies)) {
		return rollout.Refuse(rollout.Conflict, "version %d was asked for with other games, another half_width or another "+
			"model: run %s is %s; to ask anew, delete it first", spec.Evaluation.Version, spec.Name.Plain(), there.State)
	}
	return nil // there is none, or who starts it is told what is wrong
}

// mostEvaluations bounds the evaluations of a run that are looked at, the newest ones.
const mostEvaluations = 1000

// evaluationsOf is the evaluations of a run, found by their names. Who sees a run sees what it was evaluated to.
func (s *Server) evaluationsOf(ctx context.Context, run rollout.RunName) ([]runstatus.RunStatus, error) {
	named := func(name rollout.RunName) bool { return evaluation.Named(name, run) }
	runs, _, err := s.deps.Store.RunsPage(ctx, "", mostEvaluations, named)
	return slices.DeleteFunc(runs, func(r runstatus.RunStatus) bool { return r.Spec.Evaluation.Run != run }), err
}

func (s *Server) listEvaluations(ctx context.Context, in *RunPath) (EvaluationList, error) {
	of, err := s.deps.Store.Status(ctx, in.Run)
	if err != nil {
		return EvaluationList{}, err
	}
	runs, err := s.evaluationsOf(ctx, of.Spec.Name)
	if err != nil {
		return EvaluationList{}, err
	}
	var played []evaluation.Played
	for _, run := range runs {
		steps, err := s.deps.Store.AllSteps(ctx, run.Spec.Name, 0, 0)
		if err != nil {
			return EvaluationList{}, err
		}
		played = append(played, evaluation.Played{Status: run, Steps: steps})
	}
	list := EvaluationList{Evaluations: evaluation.Results(played, of.Spec.Evaluate.Keep)}
	for _, asked := range evaluation.Due(of, s.deps.Now()) {
		name := evaluation.Name(of.Spec.Name, asked)
		if slices.ContainsFunc(runs, func(r runstatus.RunStatus) bool { return r.Spec.Name.Plain() == name }) {
			continue // its adapter may be forgotten by now
		}
		if _, err := evaluation.Spec(of, asked); err != nil {
			list.Notes = append(list.Notes, fmt.Sprintf("version %d is not evaluated: %v", asked.Version, err))
		}
	}
	return list, nil
}
