package turncost

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/kit/processortime"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/trials/bench/benchservice"
)

// measured is the running service.
type measured struct {
	*benchservice.Service
	cfg Config
}

// Measure plays games of each length and says what a turn of them has cost.
func Measure(ctx context.Context, cfg Config) (Result, error) {
	s, err := startSite(ctx, cfg)
	if err != nil {
		return Result{}, err
	}
	defer s.Stop()
	res := Result{Config: cfg, Machine: processortime.ThisMachine()}
	if res.RedisVersion, err = s.RedisInfo(ctx, "redis_version"); err != nil {
		return Result{}, err
	}
	cfg.say("playing a group of games to warm up, then nothing for %v: what the processes cost by themselves", idleFor)
	if _, err := s.play(ctx, "warm", benchservice.PhasesPerYear, 1, nil); err != nil {
		return Result{}, err
	}
	if res.Idle, err = s.watch(ctx, idleFor); err != nil {
		return Result{}, err
	}
	if cfg.Waiting > 0 {
		cfg.say("%d claims wait for a batch that does not come, for %v", cfg.Waiting, waitingFor)
		err = s.Waiting(ctx, cfg.Waiting, func(ctx context.Context) (err error) {
			res.Waiting, err = s.watch(ctx, waitingFor)
			return err
		})
		if err != nil {
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
	res.LoadAfter = processortime.Load()
	return res, nil
}

func startSite(ctx context.Context, cfg Config) (*measured, error) {
	cfg.say("starting Redis, Temporal, a server and a worker in %s", cfg.Dir)
	running, err := benchservice.Start(ctx, benchservice.Config{Programs: cfg.Programs,
		EmbeddedRedis: cfg.EmbeddedRedis, Dir: cfg.Dir, Games: cfg.Games, Claims: cfg.Waiting, After: cfg.After,
		OnDisk: cfg.OnDisk})
	if err != nil {
		return nil, err
	}
	return &measured{running, cfg}, nil
}

// processes are those whose time is measured, by the name that the result gives them.
func (s *measured) processes() map[string]int {
	pids := map[string]int{Worker: s.PID("worker-0"), Server: s.PID("server"), Temporal: s.PID("temporal")}
	if s.cfg.Redis != "" {
		pids[Redis] = s.PID("redis")
	}
	return pids
}

// used is the processor time that each process has used so far.
func (s *measured) used() (map[string]float64, error) {
	used := map[string]float64{}
	for name, pid := range s.processes() {
		sec, err := processortime.Of(pid)
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

const (
	idleFor    = 5 * time.Second  // that the processes are watched while nothing is played
	waitingFor = 20 * time.Second // while claims wait
)

// watch is the processor time per second, in milliseconds, that each process uses for a while.
func (s *measured) watch(ctx context.Context, lasts time.Duration) (map[string]float64, error) {
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
func (s *measured) row(ctx context.Context, phases int) (Row, error) {
	groups := s.cfg.groups(phases)
	row := Row{Phases: phases, Games: groups * s.cfg.Samples}
	row.Turns = row.Games * phases * benchservice.Powers
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
func (s *measured) play(ctx context.Context, name rollout.RunName, phases, groups int,
	memory *float64) (float64, error) {
	spec := s.Spec(name, phases, groups, s.cfg.Samples)
	spec.Timeouts.Heartbeat = rollout.Duration(s.cfg.Heartbeat)
	if err := s.API.StartRun(ctx, spec); err != nil {
		return 0, fmt.Errorf("start run %s: %w", name, err)
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	peak := 0.0
	for {
		counts, err := s.Buffer.Counts(ctx, name)
		if err != nil && !rollout.Refused(err, rollout.NoSuchRun) {
			return 0, err
		}
		if memory != nil && s.cfg.Redis != "" {
			used, err := s.RedisNumber(ctx, "used_memory")
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
	if err := s.StopRun(ctx, name); err != nil {
		return 0, err
	}
	return peak, nil
}

// lookEvery is rare enough to cost nothing.
const lookEvery = 250 * time.Millisecond

// counters is what has been used so far.
type counters struct {
	cpu   map[string]float64
	redis map[string]float64 // of INFO
}

func (c counters) memory() *float64 { m := c.redis["used_memory"]; return &m }

// redisCounters are the lines of INFO that are compared.
var redisCounters = []string{"total_commands_processed", "total_net_input_bytes", "total_net_output_bytes",
	"used_memory"}

func (s *measured) counters(ctx context.Context) (counters, error) {
	c := counters{redis: map[string]float64{}}
	var err error
	if s.cfg.Redis != "" {
		for _, name := range redisCounters {
			if c.redis[name], err = s.RedisNumber(ctx, name); err != nil {
				return c, err
			}
		}
	}
	c.cpu, err = s.used()
	return c, err
}
