package bufferload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/share"
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/observe/runsampler"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling/scaledfleet"
	"github.com/millrace/millrace/internal/store/buffer"
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

// countedEngine is an engine as the keeper sees it: it is well, and has answered its part of the turns.
type countedEngine struct {
	load []*worker
	said atomic.Int64
}

var _ fleet.Client = (*countedEngine)(nil)

func (*countedEngine) Health(context.Context) error                      { return nil }
func (*countedEngine) Version(context.Context) (string, error)           { return "0.11.0", nil }
func (*countedEngine) LoadAdapter(context.Context, string, string) error { return nil }
func (*countedEngine) UnloadAdapter(context.Context, string) error       { return nil }

func (*countedEngine) Models(context.Context) ([]vllm.Model, error) {
	return []vllm.Model{{ID: benchservice.Model}}, nil
}

func (e *countedEngine) Metrics(context.Context) (vllm.Sample, error) {
	n := float64(e.said.Add(1))
	for _, w := range e.load {
		n += float64(w.turns.Load())
	}
	return vllm.Sample{PromptTokens: n * promptTokens, GenerationTokens: n * answerTokens, Running: 1}, nil
}

func (*countedEngine) Complete(_ context.Context, req rollout.Request) (rollout.Completion, error) {
	return rollout.Completion{Text: "1", TokenIDs: []int32{1}, Model: req.Model, FinishReason: rollout.FinishStop}, nil
}

// trainerLoad is a trainer that takes batches as soon as they are there, and needs no time for them.
type trainerLoad struct {
	run    rollout.RunName
	buffer *buffer.Store
	games  *gameLoad
	done   *done
}

// train trains until the context ends.
func (t *trainerLoad) train(ctx context.Context) error {
	generation, step, err := t.buffer.Attach(ctx, t.run, nil)
	if err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	follow, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_ = t.buffer.Follow(follow, func() {}, func(rollout.RunName) { // the next look does without
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	}()
	for ; ctx.Err() == nil; step++ {
		if err := t.step(ctx, generation, step, changed); err != nil {
			return err
		}
	}
	return nil
}

// lookAnyway is how often a claim that waits asks when it hears of nothing.
const lookAnyway = 2 * time.Second

func (t *trainerLoad) step(ctx context.Context, generation rollout.TrainerGeneration, step rollout.Step,
	changed chan struct{}) error {
	for {
		batch, err := t.buffer.ClaimRaw(ctx, t.run, step, generation, buffer.Share{})
		if err == nil {
			if err = batch.WriteCompact(io.Discard); err != nil {
				return err
			}
			break
		}
		if !rollout.Refused(err, rollout.NotReady) {
			return fmt.Errorf("claim step %d: %w", step, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-time.After(lookAnyway):
		}
	}
	report := steprecord.StepReport{WallSec: 1, Phases: map[steprecord.Phase]float64{steprecord.PhaseTrain: 1}}
	if _, _, err := t.buffer.Complete(ctx, t.run, step, generation, report, steprecord.FleetView{}); err != nil {
		return fmt.Errorf("complete step %d: %w", step, err)
	}
	version := rollout.PolicyVersion(step) + 1
	if err := t.buffer.SetVersion(ctx, t.run, version, 0); err != nil {
		return err
	}
	t.games.version.Store(int64(version))
	t.done.steps.Add(1)
	return nil
}
