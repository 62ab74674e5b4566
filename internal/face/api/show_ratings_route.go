package api

import (
	"context"

	"github.com/millrace/millrace/internal/diagnosis/runratings"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

func (s *Server) showRatings(ctx context.Context, in *struct {
	RunPath
	Players int `query:"players" minimum:"2" maximum:"100" default:"40" doc:"At most so many; neighbouring versions are one"`
}) (runratings.Ratings, error) {
	orders := map[rollout.Order]int{}
	count := func(record steprecord.StepRecord) {
		for _, results := range record.Service.Played() {
			for order, n := range results.Orders {
				orders[order] += n
			}
		}
	}
	if err := s.eachDoneStep(ctx, in.Run, count); err != nil {
		return runratings.Ratings{}, err
	}
	evaluations, err := s.evaluationsOf(ctx, in.Run)
	if err != nil {
		return runratings.Ratings{}, err
	}
	for _, run := range evaluations {
		if err := s.eachDoneStep(ctx, run.Spec.Name, count); err != nil {
			return runratings.Ratings{}, err
		}
	}
	rated, err := runratings.Of(in.Run.Plain(), orders, in.Players)
	if err != nil {
		return runratings.Ratings{}, err
	}
	of, err := s.deps.Store.Status(ctx, in.Run)
	if err == nil && of.Spec.Group.ZeroVariance == runspec.DropZeroVariance {
		rated.Notes = append(rated.Notes, "groups dropped for equal rewards are not counted: who wins or loses all games of "+
			"a group is rated too close to its opponent")
	}
	return rated, err
}
