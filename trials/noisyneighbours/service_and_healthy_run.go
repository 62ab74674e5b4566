package noisyneighbours

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/trials/stack"
)

// site is the running service, and the healthy run in it.
type site struct {
	*stack.Stack
	dir     string
	journal string
	rdb     *redis.Client // ours: what it answers does not depend on the server
	store   *buffer.Store
	http    *http.Client // for crowds of callers
	api     *apiclient.Client
	serial  atomic.Int64 // makes names of runs and engines unique
}

const (
	healthy = rollout.RunName("healthy")
	model   = "Qwen/Qwen2.5-7B-Instruct" // what simulated engines serve
	prefix  = "isolation"                // of our keys in Redis
	trainer = "trainer"                  // the healthy run's, among the children

	workers     = 2
	engines     = 3
	engineSpeed = "1"
)

// configuration is the default one, but for two cores: what a machine of 16 does with 1,000 games, two do with 128.
const configuration = "redis: {prefix: " + prefix + "}\nworker: {games: 128}\n"

// startSite starts a service of its own and returns when the healthy run has trained its first steps.
func startSite(ctx context.Context, cfg Config, number int) (*site, error) {
	dir := filepath.Join(cfg.Dir, fmt.Sprintf("stack-%d", number))
	started, err := stack.Start(ctx, stack.Config{
		Programs: cfg.Programs, Dir: dir, Service: configuration,
		Workers: workers, Engines: engines, EngineArgs: []string{"--speed", engineSpeed, "--faults"},
		Volatile: true, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	s := &site{Stack: started, dir: dir, journal: filepath.Join(dir, "journal.jsonl")}
	s.rdb = redis.NewClient(&redis.Options{Addr: s.Redis})
	s.store = buffer.New(s.rdb, buffer.Options{Prefix: prefix})
	s.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: crowd}}
	if s.api, err = apiclient.New("http://"+s.Server, "", s.http); err == nil {
		err = s.train(ctx, cfg.Millrace)
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// crowd is how many connections are kept for callers that come in crowds.
const crowd = 200

// warmSteps are trained before anything is measured.
const warmSteps = 3

func (s *site) train(ctx context.Context, millrace string) error {
	client, err := s.Client()
	if err != nil {
		return err
	}
	if err := client.StartRun(ctx, s.spec(healthy)); err != nil {
		return fmt.Errorf("start the healthy run: %w", err)
	}
	err = s.Spawn(trainer, true, millrace, "trainer", "demo", string(healthy), "--server", "http://"+s.Server,
		"--adapters", filepath.Join(s.dir, "adapters"), "--journal", s.journal,
		"--speed", "1", "--load", "0s", "--ref-logprobs", "0s", "--train", "300ms", "--publish", "0s")
	if err != nil {
		return err
	}
	return stack.Await(ctx, 2*time.Minute, func(context.Context) error {
		if n := s.recorded(); n < warmSteps {
			return fmt.Errorf("the healthy run has trained %d steps", n)
		}
		return nil
	})
}

func (s *site) stop() {
	s.Stop()
	s.rdb.Close()
	s.http.CloseIdleConnections()
}

// processes are those whose memory and life count.
func (s *site) processes() []string {
	names := []string{"server"}
	for i := range workers {
		names = append(names, fmt.Sprintf("worker-%d", i))
	}
	return names
}

// spec is a run whose steps take about a second on engines that are mostly idle: what it feels of others is its own
// waiting.
func (s *site) spec(name rollout.RunName) runspec.Spec {
	return runspec.Spec{
		Name: name, Model: model, Steps: 1_000_000, Seed: 1,
		Environment: runspec.Environment{Kind: "tictactoe", Options: json.RawMessage(`{"opening_moves":1}`)},
		Group:       runspec.GroupSpec{Samples: 3, MinSamples: 3},
		Buffer:      runspec.BufferSpec{Depth: 2, GroupsPerStep: 3, MaxStaleness: 4, OnStale: runspec.DropStale},
		Sampling:    rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 4},
		Adapters:    runspec.AdapterSpec{Rank: 8, PathPrefix: filepath.Join(s.dir, "adapters")},
		Dispatch:    runspec.Dispatch{Policy: runspec.LeastTokens},
		Timeouts: runspec.Timeouts{
			Completion: rollout.Duration(20 * time.Second), Episode: rollout.Duration(5 * time.Minute),
			Heartbeat: rollout.Duration(5 * time.Second),
		},
	}
}

// unique is a name that no run and no engine of the site has.
func (s *site) unique(what string) string { return fmt.Sprintf("%s-%d", what, s.serial.Add(1)) }

// call calls the API as a stranger of the healthy run does.
func (s *site) call(ctx context.Context, method, path string, body any) (apiclient.Answer, error) {
	return s.api.Ask(ctx, method, path, body)
}

// undoing bounds what a disturbance does to take itself back.
const undoing = 30 * time.Second

// undo calls until the service accepts; a service that has just been attacked may need a while.
func (s *site) undo(method, path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), undoing)
	defer cancel()
	return stack.Await(ctx, undoing, func(ctx context.Context) error {
		a, err := s.call(ctx, method, path, nil)
		if err == nil && a.Status >= http.StatusBadRequest && a.Status != http.StatusNotFound {
			err = refusal(a)
		}
		return err
	})
}

// wait lasts until the disturbance is over.
func wait(ctx context.Context) { <-ctx.Done() }

// ours reports whether an error only says that the disturbance is over.
func ours(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
