package api

import (
	"context"

	"github.com/millrace/millrace/internal/diagnosis/runratings"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

func (s *Server) showRatings(ctx context.Context, in *struct {
	RunPath
	Players int `query:"players" minimum:"2" maximum:"100" default:"40" doc:"At most so many; neighbouring versions are one"`
}) (runratings.Ratings, error) {
	orders := map[rollout.Order]int{}
	err := s.eachDoneStep(ctx, in.Run, func(record steprecord.StepRecord) {
		for _, results := range record.Service.Played() {
			for order, n := range results.Orders {
				orders[order] += n
			}
		}
	})
	if err != nil {
		return runratings.Ratings{}, err
	}
	return runratings.Of(in.Run.Plain(), orders, in.Players)
}
