package turncost

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/apiclient"
	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/freeport"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/stack"
)

// engines is how many there are: more than one, so that the dispatcher has to choose.
const engines = 2

// site is the running service.
type site struct {
	*stack.Stack
	cfg      Config
	engines  []*instantEngine
	rdb      *redis.Client
	store    *buffer.Store
	api      *apiclient.Client
	profiles string // address of the worker's
}

// Measure plays games of each length and says what a turn of them has cost.
func Measure(ctx context.Context, cfg Config) (Result, error) {
	s, err := startSite(ctx, cfg)
	if err != nil {
		return Result{}, err
	}
	defer s.stop()
	res := Result{Config: cfg, Cores: runtime.NumCPU(), Processor: processor(), LoadBefore: load()}
	if res.RedisVersion, err = s.redisInfo(ctx, "redis_version"); err != nil {
		return Result{}, err
	}
	cfg.say("playing a group of games to warm up, then nothing for %v: what the processes cost by themselves", idleFor)
	if _, err := s.play(ctx, "warm", phasesPerYear, 1, nil); err != nil {
		return Result{}, err
	}
	if res.Idle, err = s.watch(ctx, idleFor); err != nil {
		return Result{}, err
	}
	if cfg.Waiting > 0 {
		cfg.say("%d claims wait for a batch that does not come, for %v", cfg.Waiting, waitingFor)
		if res.Waiting, err = s.waiting(ctx, cfg.Waiting); err != nil {
			return Result{}, err
		}
	}
	for _, phases := range cfg.Phases {
		row, err := s.row(ctx, phases)
		if err != nil {
			return Result{}, fmt.Errorf("games of %d phases: %w", phases, err)
		}
		res.Rows = append(res.Rows, row)
	}
	res.LoadAfter = load()
	return res, nil
}

func startSite(ctx context.Context, cfg Config) (*site, error) {
	s := &site{cfg: cfg}
	var err error
	if s.profiles, err = freeport.Address(); err != nil {
		return nil, err
	}
	most := 4096 + 2*cfg.Waiting
	cfg.say("starting Redis, Temporal, a server and a worker in %s", cfg.Dir)
	s.Stack, err = stack.Start(ctx, stack.Config{
		Millrace: cfg.Millrace, Temporal: cfg.Temporal, Redis: cfg.Redis, RedisAt: cfg.EmbeddedRedis, Dir: cfg.Dir,
		Service: fmt.Sprintf("worker: {games: %d, listen: \"\"}\nlimits: {games_per_run: 1000000, waiting_claims: %d, "+
			"connections: %d, connections_per_address: %d}\n", cfg.Games, most, most, most), Workers: 1,
		WorkerArgs: []string{"--pprof", s.profiles}, Volatile: !cfg.OnDisk,
	})
	if err != nil {
		return nil, err
	}
	s.rdb = redis.NewClient(&redis.Options{Addr: s.Redis})
	s.store = buffer.New(s.rdb, buffer.Options{})
	if s.api, err = s.Client(); err == nil {
		err = s.addEngines(ctx)
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *site) addEngines(ctx context.Context) error {
	for i := range engines {
		e, err := startInstantEngine(s.cfg.After)
		if err != nil {
			return err
		}
		s.engines = append(s.engines, e)
		if _, _, err := s.api.AddEngine(ctx, fmt.Sprintf("instant-%d", i), e.url, 0); err != nil {
			return fmt.Errorf("add an engine: %w", err)
		}
	}
	return nil
}

func (s *site) stop() {
	s.Stack.Stop()
	for _, e := range s.engines {
		e.stop()
	}
	s.rdb.Close()
}

// processes are those whose time is measured, by the name that the result gives them.
func (s *site) processes() map[string]int {
	pids := map[string]int{Worker: s.PID("worker-0"), Server: s.PID("server"), Temporal: s.PID("temporal")}
	if s.cfg.Redis != "" {
		pids[Redis] = s.PID("redis")
	}
	return pids
}

// used is the processor time that each process has used so far.
func (s *site) used() (map[string]float64, error) {
	used := map[string]float64{}
	for name, pid := range s.processes() {
		sec, err := processorSec(pid)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		used[name] = sec
	}
	return used, nil
}

func since(before, now map[string]float64) map[string]float64 {
	d := map[string]float64{}
	for name := range now {
		d[name] = now[name] - before[name]
	}
	return d
}

// idleFor is how long the processes are watched while nothing is played.
const idleFor = 5 * time.Second

// watch is the processor time per second, in milliseconds, that each process uses for a while.
func (s *site) watch(ctx context.Context, lasts time.Duration) (map[string]float64, error) {
	before, err := s.used()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(lasts):
	}
	now, err := s.used()
	if err != nil {
		return nil, err
	}
	used := since(before, now)
	for name := range used {
		used[name] *= 1000 / time.Since(began).Seconds()
	}
	return used, nil
}

// row measures games of one length.
func (s *site) row(ctx context.Context, phases int) (Row, error) {
	groups := s.cfg.groups(phases)
	row := Row{Phases: phases, Games: groups * s.cfg.Samples}
	row.Turns = row.Games * phases * powers
	s.cfg.say("playing %d games of %d phases: %d turns", row.Games, phases, row.Turns)
	sampler := s.sampleProfiles(ctx)
	before, err := s.counters(ctx)
	if err != nil {
		return row, err
	}
	began := time.Now()
	name := rollout.RunName(fmt.Sprintf("turn-%d", phases))
	if row.Peak, err = s.play(ctx, name, phases, groups, before.memory()); err != nil {
		return row, err
	}
	row.WallSec = time.Since(began).Seconds()
	now, err := s.counters(ctx)
	if err != nil {
		return row, err
	}
	samples, err := sampler()
	if err != nil {
		return row, err
	}
	row.fill(before, now, samples)
	return row, nil
}

// play has groups of games played by a run of their own, and returns the most memory that Redis took for it beyond what
// it had.
func (s *site) play(ctx context.Context, name rollout.RunName, phases, groups int, memory *float64) (float64, error) {
	if err := s.api.StartRun(ctx, s.spec(name, phases, groups)); err != nil {
		return 0, fmt.Errorf("start run %s: %w", name, err)
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	peak := 0.0
	for {
		counts, err := s.store.Counts(ctx, name)
		if err != nil && !rollout.Refused(err, rollout.NoSuchRun) {
			return 0, err
		}
		if memory != nil && s.cfg.Redis != "" {
			used, err := s.number(ctx, "used_memory")
			if err != nil {
				return 0, err
			}
			peak = max(peak, used-*memory)
		}
		if counts.Dropped > 0 {
			return 0, fmt.Errorf("run %s: %d groups were dropped; the logs are in %s", name, counts.Dropped, s.cfg.Dir)
		}
		if counts.Ready >= int64(groups) {
			break
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-ticker.C:
		}
	}
	why := map[string]string{"reason": "measured"}
	answer, err := s.api.Ask(ctx, http.MethodPost, apiclient.RunPath(name)+"/stop", why)
	if err == nil && answer.Status >= http.StatusBadRequest {
		err = answer.Refusal()
	}
	if err != nil {
		return 0, fmt.Errorf("stop run %s: %w", name, err)
	}
	return peak, nil
}

// lookEvery is rare enough to cost nothing.
const lookEvery = 250 * time.Millisecond

// spec is a run of one step, for which all games are launched at once.
func (s *site) spec(name rollout.RunName, phases, groups int) rollout.Spec {
	options, _ := json.Marshal(map[string]int{"horizon_years": phases / phasesPerYear}) // never fails
	return rollout.Spec{
		Name: name, Model: model, Steps: 1, Seed: 1,
		Environment: rollout.Environment{Kind: "diplomacy", Options: options},
		Group:       rollout.GroupSpec{Samples: s.cfg.Samples, MinSamples: s.cfg.Samples},
		Buffer:      rollout.BufferSpec{Depth: 1, GroupsPerStep: groups, MaxStaleness: 4, OnStale: rollout.DropStale},
		Sampling:    rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 256},
		Adapters:    rollout.AdapterSpec{Rank: 8, PathPrefix: s.cfg.Dir},
		Dispatch:    rollout.Dispatch{Policy: rollout.LeastTokens},
		Timeouts: rollout.Timeouts{
			Completion: rollout.Duration(time.Minute), Episode: rollout.Duration(24 * time.Hour),
			Heartbeat: rollout.Duration(10 * time.Second),
		},
	}
}

// counters is what has been used so far.
type counters struct {
	cpu   map[string]float64
	redis map[string]float64 // of INFO
}

func (c counters) memory() *float64 { m := c.redis["used_memory"]; return &m }

// redisCounters are the lines of INFO that are compared.
var redisCounters = []string{"total_commands_processed", "total_net_input_bytes", "total_net_output_bytes",
	"used_memory"}

func (s *site) counters(ctx context.Context) (counters, error) {
	c := counters{redis: map[string]float64{}}
	var err error
	if s.cfg.Redis != "" {
		for _, name := range redisCounters {
			if c.redis[name], err = s.number(ctx, name); err != nil {
				return c, err
			}
		}
	}
	c.cpu, err = s.used()
	return c, err
}

func (s *site) number(ctx context.Context, name string) (float64, error) {
	text, err := s.redisInfo(ctx, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// redisInfo is a line of Redis's INFO; empty for the embedded one, which says little.
func (s *site) redisInfo(ctx context.Context, name string) (string, error) {
	if s.cfg.Redis == "" {
		return "", nil
	}
	text, err := s.rdb.Info(ctx).Result()
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

// window is how long one profile of the worker is: its making costs the worker some milliseconds.
const window = 5 * time.Second

// sampleProfiles takes profiles of the worker, one after the other, until what it returns is called; the last one is
// waited for.
func (s *site) sampleProfiles(ctx context.Context) (stop func() ([]sample, error)) {
	type taken struct {
		samples []sample
		err     error
	}
	enough, done := make(chan struct{}), make(chan taken, 1)
	go func() {
		var t taken
		for {
			some, err := s.profile(ctx)
			t.samples, t.err = append(t.samples, some...), err
			select {
			case <-enough:
			default:
				if err == nil {
					continue
				}
			}
			done <- t
			return
		}
	}()
	return func() ([]sample, error) {
		close(enough)
		t := <-done
		return t.samples, t.err
	}
}

func (s *site) profile(ctx context.Context) ([]sample, error) {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", s.profiles, int(window.Seconds()))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("profile of the worker: %w", err)
	}
	defer resp.Body.Close()
	packed, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("profile of the worker: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("profile of the worker: %d %.200s", resp.StatusCode, packed)
	}
	return readProfile(packed)
}
