package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/rollout"
)

func (s *Server) registerWorkers() {
	huma.Register(s.api, s.operation(get, "/v1/workers", "list-workers", "workers", "List workers",
		"The worker processes that are there, the busiest first, then for some hours those that are gone: absent ones, "+
			"which nobody heard of any more, and stopped ones."), s.listWorkers)
}

type workersBody struct {
	Body struct {
		Workers []rollout.Worker `json:"workers"`
	}
}

func (s *Server) listWorkers(ctx context.Context, _ *struct{}) (*workersBody, error) {
	workers, err := s.deps.Workers.List(ctx)
	if err != nil {
		return nil, s.fail(ctx, "list workers", err)
	}
	out := &workersBody{}
	out.Body.Workers = append([]rollout.Worker{}, workers...)
	return out, nil
}
