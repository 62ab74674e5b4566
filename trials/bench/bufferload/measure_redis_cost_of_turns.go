package bufferload

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/kit/processortime"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/redisserver"
	"github.com/millrace/millrace/trials/bench/benchservice"
	"github.com/millrace/millrace/trials/stack"
)

// Measure loads each kind of Redis that is asked for, one after the other, and says what a turn has cost it.
func Measure(ctx context.Context, cfg Config) (Result, error) {
	res := Result{Config: cfg, Machine: processortime.ThisMachine()}
	cfg.say("playing %d games of %d phases, to be told again and again", cfg.Samples, cfg.Phases)
	scenario, games, err := recordGroup(ctx, cfg.Phases, cfg.Samples)
	if err != nil {
		return res, err
	}
	for _, c := range cfg.cases() {
		row, err := measureCase(ctx, cfg, c, scenario, games)
		if err != nil {
			return res, fmt.Errorf("%s: %w", c.name(), err)
		}
		res.Rows = append(res.Rows, row)
	}
	res.LoadAfter = processortime.Load()
	return res, nil
}

// redisCase is one kind of Redis.
type redisCase struct {
	masters int
	log     string
}

func (c Config) cases() []redisCase {
	if c.URL != "" {
		return []redisCase{{}}
	}
	var all []redisCase
	for _, log := range c.Logs {
		for _, n := range c.Masters {
			all = append(all, redisCase{n, log})
		}
	}
	return all
}

func (c redisCase) name() string {
	switch c.masters {
	case 0:
		return "the Redis given"
	case 1:
		return "1 node, log " + c.log
	}
	return fmt.Sprintf("%d nodes, log %s", c.masters, c.log)
}

// start starts the Redis of a case, and says how it is reached and ended.
func (c redisCase) start(ctx context.Context, cfg Config) (url string, stop func(), err error) {
	if c.masters == 0 {
		return cfg.URL, func() {}, nil
	}
	of := stack.Config{Programs: stack.Programs{Redis: cfg.Redis}, Volatile: c.log == LogOff,
		Dir: filepath.Join(cfg.Dir, fmt.Sprintf("%d-%s", c.masters, c.log))}
	if c.log != LogOff {
		of.Fsync = c.log
	}
	if c.masters > 1 {
		of.Masters = c.masters
	}
	s, err := stack.Start(ctx, of)
	if err != nil {
		return "", nil, err
	}
	return s.RedisURL, s.Stop, nil
}

func measureCase(ctx context.Context, cfg Config, c redisCase, scenario []byte, games []recordedGame) (Row, error) {
	url, stop, err := c.start(ctx, cfg)
	if err != nil {
		return Row{}, err
	}
	defer stop()
	cfg.say("%s: %.0f turns per second for %v", c.name(), cfg.Rate, cfg.Warm+cfg.For)
	address, err := redisserver.Parse(url)
	if err != nil {
		return Row{}, err
	}
	l, err := newLoaded(ctx, cfg, address)
	if err != nil {
		return Row{}, err
	}
	defer l.close(context.WithoutCancel(ctx))
	row := Row{Redis: c.name(), Masters: len(l.nodes), Log: cmp.Or(c.log, "as it is"), Version: l.version}
	return row, l.measure(ctx, scenario, games, &row)
}

// loaded is a Redis under load.
type loaded struct {
	cfg     Config
	clients []redis.UniversalClient
	nodes   []*redis.Client // masters
	version string
}

func newLoaded(ctx context.Context, cfg Config, address redisserver.Address) (*loaded, error) {
	l := &loaded{cfg: cfg}
	for range cfg.Workers + 1 { // the last one is the others'
		l.clients = append(l.clients, address.Connect())
	}
	var err error
	if l.nodes, err = mastersOf(ctx, l.clients[0]); err != nil {
		return nil, err
	}
	info, err := l.nodes[0].InfoMap(ctx, "server").Result()
	if err != nil {
		return nil, err
	}
	l.version = info["Server"]["redis_version"]
	return l, nil
}

// mastersOf is a client of each master.
func mastersOf(ctx context.Context, rdb redis.UniversalClient) ([]*redis.Client, error) {
	switch rdb := rdb.(type) {
	case *redis.Client:
		return []*redis.Client{rdb}, rdb.Ping(ctx).Err()
	case *redis.ClusterClient:
		var mu sync.Mutex
		var nodes []*redis.Client
		err := rdb.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, node)
			return nil
		})
		slices.SortFunc(nodes, func(a, b *redis.Client) int { return cmp.Compare(a.Options().Addr, b.Options().Addr) })
		return nodes, err
	}
	return nil, fmt.Errorf("a Redis of kind %T cannot be measured", rdb)
}

func (l *loaded) measure(ctx context.Context, scenario []byte, games []recordedGame, row *Row) error {
	shared := l.clients[len(l.clients)-1]
	var workers []*worker
	for i, rdb := range l.clients[:l.cfg.Workers] {
		workers = append(workers, newWorker(fmt.Sprintf("worker-%d", i), rdb))
	}
	var done done
	var runs []rollout.RunName
	var loads []*gameLoad
	for i := range l.cfg.Runs {
		name := rollout.RunName(fmt.Sprintf("run-%d", i))
		runs = append(runs, name)
		loads = append(loads, &gameLoad{cfg: l.cfg, run: name, scenario: scenario, games: games, done: &done})
		if err := workers[0].buffer.Open(ctx, l.cfg.spec(name)); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, loading := errgroup.WithContext(ctx)
	g.Go(func() error { return newServiceLoad(l.cfg, shared, workers, runs).run(loading) })
	idle, err := l.watch(loading, l.cfg.Idle)
	if err != nil {
		return errors.Join(err, g.Wait())
	}
	for _, load := range loads {
		g.Go(func() error { return load.play(loading, workers) })
		trainer := &trainerLoad{run: load.run, buffer: workers[0].buffer, games: load, done: &done}
		g.Go(func() error { return ended(loading, trainer.train(loading)) })
	}
	err = l.watchGames(loading, &done, row)
	stop()
	row.fill(l.cfg, idle)
	if ended := g.Wait(); ended != nil {
		return ended
	}
	return err
}

// watchGames measures while games are played, and then notes each command for a while.
func (l *loaded) watchGames(ctx context.Context, done *done, row *Row) (err error) {
	game := time.Duration(l.cfg.Phases) * l.cfg.Phase
	if !pause(ctx, game+l.cfg.Warm) {
		return ctx.Err()
	}
	at := func() [4]int64 {
		return [4]int64{done.turns.Load(), done.games.Load(), done.groups.Load(), done.steps.Load()}
	}
	before, generator, began := at(), processortime.Own(), time.Now()
	if row.nodes, err = l.watch(ctx, l.cfg.For); err != nil {
		return err
	}
	now := at()
	row.WallSec, row.GeneratorSec = time.Since(began).Seconds(), processortime.Own()-generator
	row.Turns, row.Games = now[0]-before[0], now[1]-before[1]
	row.Groups, row.Steps = now[2]-before[2], now[3]-before[3]
	row.Uses, err = trace(ctx, l.nodes, func() {
		from := done.turns.Load()
		pause(ctx, max(l.cfg.Noted, game))
		row.traced = done.turns.Load() - from
	})
	if err != nil {
		return fmt.Errorf("note each command: %w", err)
	}
	return nil
}

// watch is what each node counts for a while.
func (l *loaded) watch(ctx context.Context, lasts time.Duration) ([]counters, error) {
	before, err := l.counters(ctx)
	if err != nil {
		return nil, err
	}
	if !pause(ctx, lasts) {
		return nil, ctx.Err()
	}
	now, err := l.counters(ctx)
	if err != nil {
		return nil, err
	}
	for i := range now {
		now[i] = now[i].since(before[i])
	}
	return now, nil
}

func (l *loaded) counters(ctx context.Context) ([]counters, error) {
	all := make([]counters, len(l.nodes))
	for i, node := range l.nodes {
		var err error
		if all[i], err = read(ctx, node); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// close deletes what the load has written, and closes the connections.
func (l *loaded) close(ctx context.Context) {
	if l.cfg.URL != "" {
		for _, node := range l.nodes {
			keys := node.Scan(ctx, 0, prefix+":*", 1000).Iterator()
			for keys.Next(ctx) {
				node.Unlink(ctx, keys.Val())
			}
		}
	}
	for _, rdb := range l.clients {
		_ = rdb.Close()
	}
}

// spec is of a run that never ends.
func (c Config) spec(name rollout.RunName) runspec.Spec {
	options, _ := json.Marshal(map[string]int{"horizon_years": c.Phases / benchservice.PhasesPerYear}) // never fails
	return runspec.Spec{
		Name: name, Model: benchservice.Model, Steps: 1 << 30, Seed: 1,
		Environment: runspec.Environment{Kind: "diplomacy", Options: options},
		Group:       runspec.GroupSpec{Samples: c.Samples, MinSamples: c.Samples},
		Buffer: runspec.BufferSpec{Depth: 1 + c.groupsInPlay()/c.Groups, GroupsPerStep: c.Groups, MaxStaleness: 1 << 20,
			OnStale: runspec.DropStale, Prefill: runspec.PrefillBatch},
		Sampling: rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 256},
		Adapters: runspec.AdapterSpec{Rank: 8, PathPrefix: "/adapters"},
	}
}
