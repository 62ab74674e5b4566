// Package benchservice runs the whole service as real processes for measurements: Redis, the Temporal dev server, a
// server, a worker, and engines in this process that answer at once, or when they are let. Its games are Diplomacy in
// which no centre changes hands and no unit is lost (see made_up_completions.go), so that every phase asks all seven
// powers and a game may have any number of phases. What is measured on it is its users' business. Start reading at
// Start.
package benchservice

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/trials/stack"
)

// What every game has.
const (
	Powers        = 7 // of the map, who are all asked in every phase
	PhasesPerYear = 2 // while no centre changes hands: spring and fall
	MaxPhases     = 2000
)

// CheckPhases reports a length that no game can have.
func CheckPhases(n int) error {
	if n < PhasesPerYear || n > MaxPhases || n%PhasesPerYear != 0 {
		return fmt.Errorf("phases: %d is not an even number from %d to %d: a year has two", n, PhasesPerYear, MaxPhases)
	}
	return nil
}

// Config says what is run.
type Config struct {
	stack.Programs
	// EmbeddedRedis is the address of a Redis inside of this process, used where there is no redis-server: what it costs
	// is not measured.
	EmbeddedRedis string
	Dir           string // databases and logs are written below it

	Workers int           // 0: one
	Games   int           // that a worker plays at a time
	Claims  int           // that may wait for a batch at a time
	After   time.Duration // that engines take for an answer
	Limit   int           // requests in flight at one engine; 0: as many as the service chooses
	Hold    *Hold         // what engines do not answer yet; nil: they answer everything
	// OnDisk has Redis write its log, with appendfsync always, and Temporal its database; else both keep all in memory.
	OnDisk bool
}

// Engines is how many there are: more than one, so that the dispatcher has to choose.
const Engines = 2

// Service is the running service.
type Service struct {
	*stack.Stack
	Redis  *redis.Client
	Buffer *buffer.Store
	API    *apiclient.Client
	// Addresses of the profiles of processes.
	WorkerProfiles, ServerProfiles string

	cfg     Config
	engines []*Engine
}

// Start starts everything; the caller stops it.
func Start(ctx context.Context, cfg Config) (*Service, error) {
	s := &Service{cfg: cfg}
	var err error
	if s.WorkerProfiles, err = freeport.Address(); err != nil {
		return nil, err
	}
	if s.ServerProfiles, err = freeport.Address(); err != nil {
		return nil, err
	}
	most := 4096 + 2*cfg.Claims
	s.Stack, err = stack.Start(ctx, stack.Config{
		Programs: cfg.Programs, RedisAt: cfg.EmbeddedRedis, Dir: cfg.Dir,
		Service: fmt.Sprintf("worker: {games: %d, listen: \"\"}\nlimits: {games_per_run: 1000000, waiting_claims: %d, "+
			"connections: %d, connections_per_address: %d}\n", cfg.Games, most, most, most), Workers: max(1, cfg.Workers),
		WorkerArgs: s.workerArgs(), ServerArgs: []string{"--pprof", s.ServerProfiles},
		Volatile: !cfg.OnDisk,
	})
	if err != nil {
		return nil, err
	}
	s.Redis = redis.NewClient(&redis.Options{Addr: s.Stack.Redis})
	s.Buffer = buffer.New(s.Redis, buffer.Options{})
	if s.API, err = s.Client(); err == nil {
		err = s.addEngines(ctx)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// workerArgs has a worker answer with profiles, unless there are several: they would share the address.
func (s *Service) workerArgs() []string {
	if s.cfg.Workers > 1 {
		return nil
	}
	return []string{"--pprof", s.WorkerProfiles}
}

// Fleet is the engines.
func (s *Service) Fleet() []*Engine { return s.engines }

func (s *Service) addEngines(ctx context.Context) error {
	for i := range Engines {
		e, err := StartEngine(s.cfg.After, s.cfg.Hold)
		if err != nil {
			return err
		}
		s.engines = append(s.engines, e)
		if _, _, err := s.API.AddEngine(ctx, fmt.Sprintf("instant-%d", i), e.URL, s.cfg.Limit); err != nil {
			return fmt.Errorf("add an engine: %w", err)
		}
	}
	return nil
}

// Stop ends everything.
func (s *Service) Stop() {
	s.Stack.Stop()
	for _, e := range s.engines {
		e.Stop()
	}
	s.Redis.Close()
}

// Spec is a run of one step, for which all games are launched at once.
func (s *Service) Spec(name rollout.RunName, phases, groups, samples int) runspec.Spec {
	options, _ := json.Marshal(map[string]int{"horizon_years": phases / PhasesPerYear}) // never fails
	return runspec.Spec{
		Name: name, Model: Model, Steps: 1, Seed: 1,
		Environment: runspec.Environment{Kind: "diplomacy", Options: options},
		Group:       runspec.GroupSpec{Samples: samples, MinSamples: samples},
		Buffer:      runspec.BufferSpec{Depth: 1, GroupsPerStep: groups, MaxStaleness: 4, OnStale: runspec.DropStale},
		Sampling:    rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 256},
		Adapters:    runspec.AdapterSpec{Rank: 8, PathPrefix: s.cfg.Dir},
		Dispatch:    runspec.Dispatch{Policy: runspec.LeastTokens},
		Timeouts: runspec.Timeouts{
			Completion: rollout.Duration(time.Hour), Episode: rollout.Duration(24 * time.Hour),
			Heartbeat: rollout.Duration(10 * time.Second),
		},
	}
}

// StopRun stops a run.
func (s *Service) StopRun(ctx context.Context, name rollout.RunName) error {
	why := map[string]string{"reason": "measured"}
	answer, err := s.API.Ask(ctx, http.MethodPost, apiclient.RunPath(name)+"/stop", why)
	if err == nil && answer.Status >= http.StatusBadRequest {
		err = answer.Refusal()
	}
	if err != nil {
		return fmt.Errorf("stop run %s: %w", name, err)
	}
	return nil
}

// RedisNumber is a number of Redis's INFO.
func (s *Service) RedisNumber(ctx context.Context, name string) (float64, error) {
	text, err := s.RedisInfo(ctx, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// RedisInfo is a line of Redis's INFO; empty for the embedded one, which says little.
func (s *Service) RedisInfo(ctx context.Context, name string) (string, error) {
	if s.cfg.Redis == "" {
		return "", nil
	}
	text, err := s.Redis.Info(ctx).Result()
	if err != nil {
		return "", fmt.Errorf("ask Redis: %w", err)
	}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && key == name {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("ask Redis: no line of its INFO is called %s", name)
}
