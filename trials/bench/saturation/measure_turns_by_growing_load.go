package saturation

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/kit/processortime"
)

// little is by how much more turns per second must grow from one level of load to the next, or they have stopped
// growing.
const little = 0.05

// Measure raises the load level by level, until turns per second stop growing.
func Measure(ctx context.Context, cfg Config) (Result, error) {
	res := Result{Config: cfg, Machine: processortime.ThisMachine()}
	cfg.say("starting a Redis of %d masters, Temporal, a server, %d workers and %d engines in %s", cfg.Masters,
		cfg.Workers, cfg.Engines, cfg.Dir)
	s, err := startService(ctx, cfg)
	if err != nil {
		return res, err
	}
	defer s.stop()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var steps atomic.Int64
	g, playing := errgroup.WithContext(ctx)
	g.Go(func() error { return s.train(playing, func() { steps.Add(1) }) })
	g.Go(func() error {
		defer stop()
		return s.levels(playing, &res, &steps)
	})
	if err := g.Wait(); err != nil {
		return res, err
	}
	res.LoadAfter = processortime.Load()
	return res, nil
}

func (s *service) levels(ctx context.Context, res *Result, steps *atomic.Int64) error {
	for i, depth := range s.cfg.Depths {
		if err := s.deepen(ctx, depth); err != nil {
			return err
		}
		warm := s.cfg.Warm
		if i == 0 {
			warm += s.cfg.For / 2 // all begins cold
		}
		s.cfg.say("%d games to be in play", s.cfg.games(depth))
		if err := sleep(ctx, warm); err != nil {
			return err
		}
		if err := s.awaitGames(ctx, depth); err != nil {
			return err
		}
		l, err := s.level(ctx, depth, steps)
		if err != nil {
			return err
		}
		res.Levels = append(res.Levels, l)
		s.cfg.say("  %.0f are, %.0f turns/s, %.0f %% of the machine", l.inPlay(), l.TurnsPerSec,
			100*l.UsedCores/float64(res.Cores))
		if i > 0 && l.TurnsPerSec < (1+little)*res.Levels[i-1].TurnsPerSec {
			return nil
		}
	}
	return nil
}

// Launching hundreds of games takes a busy machine a while; a part of them is always between two games.
const (
	launchFor = 30 * time.Second
	inPlay    = 0.75
)

// awaitGames waits until most games of a level are in play, or does without.
func (s *service) awaitGames(ctx context.Context, depth int) error {
	for end := time.Now().Add(launchFor); time.Now().Before(end); {
		games, err := s.gamesByWorker(ctx)
		if err != nil {
			return err
		}
		n := 0
		for _, of := range games {
			n += of
		}
		if float64(n) >= inPlay*float64(s.cfg.games(depth)) {
			return nil
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// level measures one level of load.
func (s *service) level(ctx context.Context, depth int, steps *atomic.Int64) (Level, error) {
	l := Level{Games: s.cfg.games(depth), Processes: map[string]float64{}, GamesByWorker: map[string]float64{}}
	before, err := s.used()
	if err != nil {
		return l, err
	}
	answered, trained, began := s.answered(), steps.Load(), time.Now()
	looks := 0
	for time.Since(began) < s.cfg.For {
		if err := sleep(ctx, min(time.Second, s.cfg.For)); err != nil {
			return l, err
		}
		games, err := s.gamesByWorker(ctx)
		if err != nil {
			return l, err
		}
		looks++
		for id, n := range games {
			l.GamesByWorker[id] += float64(n)
		}
	}
	now, err := s.used()
	if err != nil {
		return l, err
	}
	l.WallSec, l.Steps = time.Since(began).Seconds(), steps.Load()-trained
	for i, n := range s.answered() {
		l.TurnsByEngine = append(l.TurnsByEngine, n-answered[i])
		l.Turns += n - answered[i]
	}
	for id := range l.GamesByWorker {
		l.GamesByWorker[id] /= float64(looks)
	}
	if l.Turns == 0 {
		return l, fmt.Errorf("no turn was played in %v: the logs are in %s (--keep keeps them)", s.cfg.For, s.cfg.Dir)
	}
	l.TurnsPerSec = float64(l.Turns) / l.WallSec
	for name, sec := range now {
		l.Processes[name] = sec - before[name]
		l.UsedCores += l.Processes[name] / l.WallSec
	}
	return l, nil
}

// engines is the name of this process in figures.
const engines = "engines, trainer"

// used is the processor time that each process has used so far.
func (s *service) used() (map[string]float64, error) {
	used := map[string]float64{engines: processortime.Own()}
	names := []string{"temporal", "server"}
	for i := range s.cfg.Workers {
		names = append(names, fmt.Sprintf("worker-%d", i))
	}
	for i := range s.cfg.Masters {
		names = append(names, redisName(i))
	}
	for _, name := range names {
		sec, err := processortime.Of(s.PID(name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, errors.Join(err, errDied))
		}
		used[name] = sec
	}
	return used, nil
}

var errDied = errors.New("it may have died: its log says why")

func redisName(i int) string {
	if i == 0 {
		return "redis"
	}
	return fmt.Sprintf("redis-%d", i)
}

func (s *service) answered() []int64 {
	n := make([]int64, len(s.engines))
	for i, e := range s.engines {
		n[i] = e.Answered()
	}
	return n
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
