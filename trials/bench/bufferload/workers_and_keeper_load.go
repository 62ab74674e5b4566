package bufferload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/share"
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/observe/runsampler"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling/scaledfleet"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/trials/bench/benchservice"
)

// serviceLoad is what processes write and read by themselves, whatever is played: the keeper of the fleet with its
// engines, workers' announcements and counts, the sampler of runs and a server that follows their events.
type serviceLoad struct {
	cfg      Config
	rdb      redis.UniversalClient
	registry scaledfleet.Registry
	workers  []*worker
	runs     []rollout.RunName
	events   *store.Store
}

func newServiceLoad(cfg Config, rdb redis.UniversalClient, workers []*worker, runs []rollout.RunName) *serviceLoad {
	return &serviceLoad{cfg: cfg, rdb: rdb, workers: workers, runs: runs,
		registry: scaledfleet.Registry{Registry: fleet.NewRegistry(rdb, prefix, time.Now)},
		events:   store.New(rdb, prefix, store.Limits{})}
}

// run runs all of it until the context ends.
func (s *serviceLoad) run(ctx context.Context) error {
	for i := range s.cfg.Engines {
		id := rollout.EngineID(fmt.Sprintf("engine-%d", i))
		e := enginestate.Engine{ID: id, URL: fmt.Sprintf("http://127.0.0.1:%d", 1024+i), MaxInFlight: s.cfg.InFlight}
		if _, err := s.registry.Add(ctx, e); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	keeper := fleet.NewKeeper(fleet.KeeperConfig{Registry: s.registry.Registry, Sampler: fleet.NewSampler(s.rdb, prefix),
		Emit: s.events, Tell: s.events, Client: func(enginestate.Engine) fleet.Client {
			return &countedEngine{
				load: s.workers}
		}})
	g.Go(func() error { s.events.Run(ctx); return nil })
	g.Go(func() error { return keeper.Keep(ctx, func() {}) })
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	sampler := runsampler.New(s.rdb, prefix, s.workers[0].buffer, s.registry, workerregistry.New(s.rdb, prefix, time.Now),
		s.events, quiet)
	g.Go(func() error { return sampler.Run(ctx) })
	for _, run := range append([]rollout.RunName{""}, s.runs...) {
		follow := func() error { return s.events.Follow(ctx, run, "0-0", func(store.Record) error { return nil }) }
		g.Go(func() error { return ended(ctx, follow()) })
	}
	for _, w := range s.workers {
		g.Go(func() error { return ended(ctx, s.inStep(ctx, w)) })
	}
	return g.Wait()
}

// ended is the error of a part, unless it was told to end.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// As fleetsync and the dispatcher do.
const (
	syncEvery     = 250 * time.Millisecond
	describeEvery = time.Second
	announceFor   = 8 * time.Second
	sampleEvery   = 2 * time.Second
)

// inStep is what a worker writes and reads to be in step with the fleet, and to account for what its games used.
func (s *serviceLoad) inStep(ctx context.Context, w *worker) error {
	watch := s.registry.Watch()
	ticker := time.NewTicker(syncEvery)
	defer ticker.Stop()
	var described, sampled time.Time
	used := map[rollout.EngineID]rollout.Usage{}
	tokens := map[rollout.UsagePart]rollout.Usage{}
	for {
		now := time.Now()
		if now.Sub(described) >= describeEvery {
			described = now
			if err := s.describe(ctx, w); err != nil {
				return err
			}
		}
		if now.Sub(sampled) >= sampleEvery {
			sampled = now
			s.sample(w, now)
		}
		_, _, err := watch.Engines(ctx)
		if err := errors.Join(err, s.exchange(ctx, w), w.registry.ReportQueue(ctx, w.id, 0)); err != nil {
			return err
		}
		if usedNow, tokensNow := s.used(w); !maps.Equal(used, usedNow) {
			if err := s.report(ctx, w, used, usedNow, tokens, tokensNow); err != nil {
				return err
			}
			used, tokens = usedNow, tokensNow
		}
		if !pause(ctx, time.Until(now.Add(syncEvery))) {
			return nil
		}
	}
}

// report accounts for what a worker's games used since it last did.
func (s *serviceLoad) report(ctx context.Context, w *worker, used, usedNow map[rollout.EngineID]rollout.Usage,
	tokens, tokensNow map[rollout.UsagePart]rollout.Usage) error {
	if err := w.registry.ReportUsage(ctx, w.id, used, usedNow); err != nil {
		return err
	}
	for _, run := range s.runs {
		if err := w.tokens.Report(ctx, run, w.id, tokens, tokensNow); err != nil {
			return err
		}
	}
	return nil
}

// exchange announces what a worker has to do: as many groups of each run as an announcement has at most.
func (s *serviceLoad) exchange(ctx context.Context, w *worker) error {
	said := share.Member{Worker: w.id, Held: map[rollout.EngineID]int{}}
	for i := range s.cfg.Engines {
		said.Held[rollout.EngineID(fmt.Sprintf("engine-%d", i))] = s.cfg.InFlight / len(s.workers)
	}
	for _, run := range s.runs {
		demand := enginestate.RunDemand{Run: run, Model: benchservice.Model}
		for g := range 32 {
			demand.Groups = append(demand.Groups, enginestate.GroupDemand{Seq: rollout.GroupSeq(g), Requests: 8})
		}
		said.Demand = append(said.Demand, demand)
	}
	_, _, err := w.registry.Exchange(ctx, said, time.Second, announceFor)
	return err
}

func (s *serviceLoad) describe(ctx context.Context, w *worker) error {
	self := enginestate.Worker{ID: w.id, State: enginestate.WorkerAlive, Slots: 1000,
		ByRun: map[rollout.RunName]int{}, Requests: map[rollout.RunName]enginestate.RequestCounts{}}
	for _, run := range s.runs {
		self.ByRun[run], self.Requests[run] = 100, enginestate.RequestCounts{InFlight: s.cfg.InFlight}
	}
	_, err := w.buffer.Active(ctx)
	return errors.Join(err, w.registry.Describe(ctx, self))
}

// sample is what a dispatcher emits of each run and of the whole.
func (s *serviceLoad) sample(w *worker, now time.Time) {
	body := telemetry.DispatchSample{WindowSec: sampleEvery.Seconds(), InFlight: map[rollout.EngineID]int{}}
	for i := range s.cfg.Engines {
		body.InFlight[rollout.EngineID(fmt.Sprintf("engine-%d", i))] = s.cfg.InFlight / len(s.workers)
	}
	for _, run := range append([]rollout.RunName{""}, s.runs...) {
		s.events.Emit(telemetry.Event{At: now, Run: run, Body: body,
			Key: fmt.Sprintf("dispatch/%s/%s/%d", w.id, run, now.UnixNano())})
	}
}

// used is what a worker's games have used, shared evenly by the engines.
func (s *serviceLoad) used(w *worker) (map[rollout.EngineID]rollout.Usage, map[rollout.UsagePart]rollout.Usage) {
	turns := w.turns.Load() / int64(s.cfg.Engines)
	usage := rollout.Usage{Requests: turns, InputTokens: turns * promptTokens, OutputTokens: turns * answerTokens,
		ExecSec: float64(turns) * s.cfg.Call.Seconds()}
	byEngine := make(map[rollout.EngineID]rollout.Usage, s.cfg.Engines)
	byPart := make(map[rollout.UsagePart]rollout.Usage, s.cfg.Engines)
	for i := range s.cfg.Engines {
		id := rollout.EngineID(fmt.Sprintf("engine-%d", i))
		byEngine[id], byPart[rollout.UsagePart{Engine: id, Adapter: benchservice.Model}] = usage, usage
	}
	return byEngine, byPart
}

// About what a turn has.
const (
	promptTokens = 440
	answerTokens = 24
)
