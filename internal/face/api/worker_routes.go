package api

import (
	"context"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

type workerList struct {
	Workers []enginestate.Worker `json:"workers"`
}

func (s *Server) listWorkers(ctx context.Context, _ *struct{}) (workerList, error) {
	workers, err := s.deps.Workers.List(ctx)
	return workerList{listed(workers)}, err
}
