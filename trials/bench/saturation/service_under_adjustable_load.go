package saturation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/trials/bench/benchservice"
	"github.com/millrace/millrace/trials/stack"
)

// runName is that of the run that is played.
const runName = rollout.RunName("scale")

// service is the running service.
type service struct {
	*stack.Stack
	cfg     Config
	engines []*benchservice.Engine
	api     *apiclient.Client
}

func startService(ctx context.Context, cfg Config) (s *service, err error) {
	s = &service{cfg: cfg}
	masters := cfg.Masters
	if masters == 1 {
		masters = 0 // one Redis, which is no Cluster
	}
	most := cfg.games(cfg.Depths[len(cfg.Depths)-1])
	s.Stack, err = stack.Start(ctx, stack.Config{
		Programs: cfg.Programs, Dir: cfg.Dir, Masters: masters, Volatile: true,
		Service: fmt.Sprintf("worker: {games: %d, listen: \"\"}\nlimits: {games_per_run: 1000000, engines: %d}\n",
			max(64, most), max(64, 2*cfg.Engines)),
		Workers: cfg.Workers,
	})
	if err != nil {
		return nil, err
	}
	if s.api, err = s.Client(); err == nil {
		err = s.addEngines(ctx)
	}
	if err == nil {
		err = s.api.StartRun(ctx, s.cfg.run(s.cfg.Depths[0]))
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *service) addEngines(ctx context.Context) error {
	for i := range s.cfg.Engines {
		e, err := benchservice.StartPacedEngine(pace, nil)
		if err != nil {
			return err
		}
		s.engines = append(s.engines, e)
		if _, _, err := s.api.AddEngine(ctx, fmt.Sprintf("engine-%02d", i), e.URL, s.cfg.InFlight); err != nil {
			return fmt.Errorf("add an engine: %w", err)
		}
	}
	return nil
}

func (s *service) stop() {
	s.Stack.Stop()
	for _, e := range s.engines {
		e.Stop()
	}
}

// deepen changes the load.
func (s *service) deepen(ctx context.Context, depth int) error {
	answer, err := s.api.Ask(ctx, http.MethodPatch, apiclient.RunPath(runName), map[string]int{"depth": depth})
	if err == nil && answer.Status >= http.StatusBadRequest {
		err = answer.Refusal()
	}
	if err != nil {
		return fmt.Errorf("set the buffer's depth to %d: %w", depth, err)
	}
	return nil
}

// gamesByWorker is how many games each worker plays now.
func (s *service) gamesByWorker(ctx context.Context) (map[string]int, error) {
	answer, err := s.api.Ask(ctx, http.MethodGet, "/v1/workers", nil)
	if err == nil && answer.Status >= http.StatusBadRequest {
		err = answer.Refusal()
	}
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	var list struct {
		Workers []enginestate.Worker `json:"workers"`
	}
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	games := map[string]int{}
	for _, w := range list.Workers {
		if w.State == enginestate.WorkerAlive {
			games[w.ID] = w.Games
		}
	}
	return games, nil
}
