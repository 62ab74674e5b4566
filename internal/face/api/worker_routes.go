package api

import (
	"context"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

func (s *Server) registerWorkers() {
	answered(s, s.operation(get, "/v1/workers", "list-workers", "workers", "List workers",
		"The worker processes that are there, the busiest first, then for some hours those that are gone: absent ones, "+
			"which nobody heard of any more, and stopped ones."), "list workers", s.listWorkers)
}

type workerList struct {
	Workers []enginestate.Worker `json:"workers"`
}

func (s *Server) listWorkers(ctx context.Context, _ *struct{}) (workerList, error) {
	workers, err := s.deps.Workers.List(ctx)
	return workerList{listed(workers)}, err
}
