package api

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

type EnginePath struct {
	ID rollout.EngineID `path:"id" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]*$" doc:"The engine's name"`
}

// EngineList is the engines of the fleet.
type EngineList struct {
	Engines []enginestate.Engine `json:"engines"`
}

func (s *Server) listEngines(ctx context.Context, _ *struct{}) (EngineList, error) {
	engines, err := s.deps.Fleet.List(ctx)
	if err != nil {
		return EngineList{}, err
	}
	err = s.closures(ctx, engines)
	return EngineList{listed(engines)}, err
}

func (s *Server) showEngine(ctx context.Context, in *EnginePath) (enginestate.Engine, error) {
	engine, err := s.engine(ctx, in.ID)
	if err != nil {
		return engine, err
	}
	one := []enginestate.Engine{engine}
	err = s.closures(ctx, one)
	return one[0], err
}

// closures adds to engines the reason why workers do not use them, and the purposes of their models.
func (s *Server) closures(ctx context.Context, engines []enginestate.Engine) error {
	workers, err := s.deps.Workers.List(ctx)
	if err != nil {
		return err
	}
	for i := range engines {
		engines[i].Closures = enginestate.Closures(engines[i].ID, workers)
		engines[i].Uses = enginestate.EngineUses(&engines[i], workers)
	}
	return nil
}

// engine finds an engine; the refusal names those that there are.
func (s *Server) engine(ctx context.Context, id rollout.EngineID) (enginestate.Engine, error) {
	engines, err := s.deps.Fleet.List(ctx)
	if err != nil {
		return enginestate.Engine{}, err
	}
	names := make([]string, 0, len(engines))
	for _, e := range engines {
		if e.ID == id {
			return e, nil
		}
		names = append(names, string(e.ID))
	}
	known := "there are none"
	if len(names) > 0 {
		known = "there are " + strings.Join(names, ", ")
	}
	return enginestate.Engine{}, rollout.Refuse(rollout.NoSuchEngine, "no engine %s; %s", id, known)
}

func (s *Server) addEngine(ctx context.Context, in *struct {
	EnginePath
	Body struct {
		URL         string `json:"url" minLength:"1" maxLength:"2048" doc:"http://host:port, without /v1" example:"http://127.0.0.1:8000"`
		MaxInFlight int    `json:"max_in_flight,omitempty" minimum:"0" maximum:"100000" doc:"Requests at a time, over all workers; 0 leaves it to the service"`
	}
}) (enginestate.Engine, error) {
	return s.deps.Fleet.Add(ctx, enginestate.Engine{ID: in.ID, URL: in.Body.URL, MaxInFlight: in.Body.MaxInFlight})
}

// Parting is how an engine goes.
type Parting struct {
	EnginePath
	Now bool `query:"now" doc:"Wait for nothing: what the engine has is sent again elsewhere"`
}

func (s *Server) drainEngine(ctx context.Context, in *Parting) (enginestate.Engine, error) {
	if err := s.deps.Fleet.Drain(ctx, in.ID, in.Now); err != nil {
		return enginestate.Engine{}, err
	}
	return s.showEngine(ctx, &in.EnginePath)
}

func (s *Server) removeEngine(ctx context.Context, in *Parting) (*struct{}, error) {
	if err := s.deps.Fleet.Remove(ctx, in.ID, in.Now); err != nil {
		return nil, s.fail(ctx, fmt.Sprintf("remove engine %s", in.ID), err)
	}
	return nil, nil
}

// WorkerList is the worker processes.
type WorkerList struct {
	Workers []enginestate.Worker `json:"workers"`
}

func (s *Server) listWorkers(ctx context.Context, _ *struct{}) (WorkerList, error) {
	workers, err := s.deps.Workers.List(ctx)
	return WorkerList{listed(workers)}, err
}
