package fleet_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/engine/dispatch/live"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/simulate/enginesim"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/buffer/pack"
)

var (
	chaosFaults = flag.Int("chaos.faults", 25, "faults in the chaos test")
	chaosSeed   = flag.Uint64("chaos.seed", 1, "seed of the chaos test")
)

// chaos is a run on engines that misbehave: the real keeper, dispatcher, client, player and buffer on simulated engines
// and an embedded Redis, in the made-up time of a synctest bubble. What Temporal does is done by loops.
type chaos struct {
	*rig
	sims       map[rollout.EngineID]*enginesim.Engine
	dispatcher *live.Dispatcher
	buffer     *buffer.Store
	spec       runspec.Spec
	env        *tictactoe.Env
	games      sync.WaitGroup

	mu       sync.Mutex
	next     rollout.GroupSeq
	version  rollout.PolicyVersion
	versions map[rollout.GroupSeq]rollout.PolicyVersion // that each group was launched with
	answered map[string]string                          // model that an engine named, by turn
	late     []string                                   // requests that outlived their deadline
	retries  int
	found    map[string][]time.Duration // how long faults went unnoticed, by kind; under events' lock
}

// watched is an engine's client that holds every completion to its deadline, and notes who answered what.
type watched struct {
	fleet.Client
	id rollout.EngineID
	c  *chaos
}

func (w watched) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	began := time.Now()
	answer, err := w.Client.Complete(ctx, req)
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if took := time.Since(began); took > req.Timeout.Std() {
		w.c.late = append(w.c.late, fmt.Sprintf("%s on %s: %v of %v", req.ID, w.id, took, req.Timeout))
	}
	if err == nil {
		w.c.answered[turnKey(req.Episode, req.Agent, req.Phase, req.Model)] = answer.Model
	}
	return answer, err
}

func turnKey(ref rollout.EpisodeRef, agent, phase, model string) string {
	return fmt.Sprintf("%s %s %s %s", ref, agent, phase, model)
}

// The coders of package pack are shared and hold channels. They must not be born in one test's bubble and used in
// another's.
func init() {
	sealed, err := pack.Bytes(nil)
	if err == nil {
		_, err = pack.ReadBytes(sealed)
	}
	if err != nil {
		panic(err)
	}
}

const chaosEngines = 4

func newChaos(t *testing.T) *chaos {
	env, err := tictactoe.New(tictactoe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := &chaos{
		rig: newRig(t), env: env, sims: map[rollout.EngineID]*enginesim.Engine{},
		buffer:   buffer.New(newRedis(t), buffer.Options{Now: time.Now}),
		versions: map[rollout.GroupSeq]rollout.PolicyVersion{},
		answered: map[string]string{},
		found:    map[string][]time.Duration{},
		spec: runspec.Spec{
			Name: "demo", Model: "Qwen/Qwen2.5-7B-Instruct", Steps: 1000,
			Environment: runspec.Environment{Kind: tictactoe.Kind},
			Group:       runspec.GroupSpec{Samples: 2, MinSamples: 2},
			Buffer: runspec.BufferSpec{Depth: 2, GroupsPerStep: 3, MaxStaleness: 4, OnStale: runspec.KeepStale,
				Prefill: runspec.PrefillBatch},
			Sampling: rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 4},
			Timeouts: runspec.Timeouts{Completion: rollout.Duration(20 * time.Second), Episode: rollout.Duration(time.Hour)},
		},
	}
	if err := c.buffer.Open(t.Context(), c.spec); err != nil {
		t.Fatal(err)
	}
	for i := range chaosEngines {
		id := rollout.EngineID('a' + rune(i))
		engine, client := simulated(t, func(cfg *enginesim.Config) { cfg.Seed = uint64(i) })
		url := fmt.Sprintf("http://%s:8000", id)
		c.sims[id] = engine
		c.clients.Store(url, watched{client, id, c})
	}
	for id := range c.sims { // when all clients are there
		url := fmt.Sprintf("http://%s:8000", id)
		if _, err := c.registry.Add(t.Context(), enginestate.Engine{ID: id, URL: url, MaxInFlight: 8}); err != nil {
			t.Fatal(err)
		}
	}
	c.startDispatcher()
	return c
}

func (c *chaos) startDispatcher() {
	c.dispatcher = live.New(live.Config{
		Scheduler: dispatch.Config{NoEngineTTL: 20 * time.Second},
		Clients:   func(e enginestate.Engine) live.Engine { return c.client(e.URL) },
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = c.dispatcher.Run(ctx) })
	running.Go(func() {
		for ctx.Err() == nil {
			if engines, err := c.registry.List(ctx); err == nil {
				c.dispatcher.SetEngines(alone(engines))
			}
			pause(ctx, 250*time.Millisecond)
		}
	})
	c.t.Cleanup(func() { cancel(); running.Wait() })
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// launch plays one more group.
func (c *chaos) launch(ctx context.Context) {
	c.mu.Lock()
	ref, version := rollout.GroupRef{Run: c.spec.Name, Seq: c.next}, c.version
	c.next++
	c.versions[ref.Seq] = version
	c.mu.Unlock()
	c.games.Go(func() {
		if err := c.group(ctx, ref, version); err != nil && ctx.Err() == nil {
			c.t.Errorf("group %s: %v", ref, err)
		}
	})
}

func (c *chaos) group(ctx context.Context, ref rollout.GroupRef, version rollout.PolicyVersion) error {
	drawn, err := c.env.Scenario(int64(ref.Seq))
	if err != nil {
		return err
	}
	scenario, err := c.buffer.Queue(ctx, ref, drawn, version, time.Now())
	if err != nil {
		return err
	}
	var games sync.WaitGroup
	for sample := range c.spec.Group.Samples {
		games.Go(func() { c.game(ctx, rollout.EpisodeRef{GroupRef: ref, Sample: sample}, version, scenario) })
	}
	games.Wait()
	episodes, err := c.buffer.Episodes(ctx, ref, c.spec.Group.Samples)
	if err != nil {
		return err
	}
	g := rollout.Group{Ref: ref, Samples: len(episodes), MinVersion: version, MaxVersion: version}
	for _, ep := range episodes {
		g.Trajectories = append(g.Trajectories, ep.Trajectories...)
		g.EpisodeSec, g.ModelSec = append(g.EpisodeSec, 1), append(g.ModelSec, ep.ModelSec)
		g.QueueSec, g.EnvSec = append(g.QueueSec, ep.QueueSec), append(g.EnvSec, ep.EnvSec)
	}
	_, err = c.buffer.CommitGroup(ctx, &g)
	return err
}

// game plays until it is played, as a retried activity does.
func (c *chaos) game(ctx context.Context, ref rollout.EpisodeRef, version rollout.PolicyVersion, scenario []byte) {
	model := version.Adapter(ref.Run)
	if model == "" {
		model = c.spec.Model
	}
	for attempt := 1; ctx.Err() == nil; attempt++ {
		var from *rollout.Checkpoint
		if cp, found, err := c.buffer.LoadCheckpoint(ctx, ref); err == nil && found {
			from = &rollout.Checkpoint{PhaseIndex: cp.PhaseIndex, Game: cp.Game, Episode: cp.Episode}
		}
		player := episode.Player{
			Environment: c.env, Policy: c.dispatcher, Now: time.Now, Beat: func(int, string) {},
			Journal: attemptJournal{c, ref, attempt},
		}
		ep, game, err := player.Play(ctx, episode.Plan{
			Ref: ref, Attempt: attempt, Model: model, Version: version,
			Sampling: c.spec.Sampling, Timeouts: c.spec.Timeouts, Seed: int64(ref.Seq),
		}, scenario, from)
		if err == nil {
			err = c.buffer.SaveEpisode(ctx, ref, attempt, ep, game)
		}
		if err == nil {
			return
		}
		if ctx.Err() == nil && rollout.KindOf(err) != rollout.Retryable {
			c.t.Errorf("game %s: %v", ref, err)
			return
		}
		c.mu.Lock()
		c.retries++
		c.mu.Unlock()
		pause(ctx, time.Second)
	}
}

type attemptJournal struct {
	c       *chaos
	ref     rollout.EpisodeRef
	attempt int
}

func (j attemptJournal) Save(ctx context.Context, c rollout.Checkpoint) error {
	return j.c.buffer.SaveCheckpoint(ctx, j.ref, j.attempt, c)
}

// train claims steps, checks what it is fed, publishes versions and has groups replaced, until the faults are over.
func (c *chaos) train(ctx context.Context, over <-chan struct{}) (steps rollout.Step) {
	t := c.t
	generation, _, err := c.buffer.Attach(ctx, c.spec.Name, nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	for range c.spec.Buffer.Outstanding() {
		c.launch(ctx)
	}
	for step := rollout.Step(0); ; step++ {
		batch, err := c.claim(ctx, step, generation)
		if err != nil {
			t.Errorf("claim step %d: %v", step, err)
			return step
		}
		c.check(batch)
		for range c.spec.Buffer.GroupsPerStep {
			c.launch(ctx)
		}
		pause(ctx, 5*time.Second)
		c.publish(ctx)
		report := steprecord.StepReport{WallSec: 5, Phases: map[steprecord.Phase]float64{steprecord.PhaseTrain: 5}}
		if _, _, err := c.buffer.Complete(ctx, c.spec.Name, step, generation, report, steprecord.FleetView{}); err != nil {
			t.Errorf("complete step %d: %v", step, err)
			return step
		}
		select {
		case <-over:
			return step + 1
		default:
		}
	}
}

// claim waits for a batch; an hour is more than any fault lasts.
func (c *chaos) claim(
	ctx context.Context, step rollout.Step, generation rollout.TrainerGeneration,
) (*rollout.Batch, error) {
	for deadline := time.Now().Add(time.Hour); ; {
		batch, err := c.buffer.Claim(ctx, c.spec.Name, step, generation, buffer.Share{})
		if !rollout.Refused(err, rollout.NotReady) || time.Now().After(deadline) {
			return batch, err
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// check holds a batch to what was promised: whole groups, and every turn by the version that it says, which is the
// group's, as the engine that answered named it.
func (c *chaos) check(batch *rollout.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range batch.Groups {
		if g.Samples != c.spec.Group.Samples || len(g.Trajectories) != 2*c.spec.Group.Samples {
			c.t.Errorf("group %s has %d samples, %d trajectories", g.Ref, g.Samples, len(g.Trajectories))
		}
		version := c.versions[g.Ref.Seq]
		model := version.Adapter(c.spec.Name)
		if model == "" {
			model = c.spec.Model
		}
		for _, tr := range g.Trajectories {
			for _, turn := range tr.Turns {
				ref := rollout.EpisodeRef{GroupRef: g.Ref, Sample: tr.Sample}
				if by := c.answered[turnKey(ref, tr.Agent, turn.Phase, model)]; turn.PolicyVersion != version || by != model {
					c.t.Errorf("%s %s: made by version %d, model %q; want %d", tr.ID, turn.Phase, turn.PolicyVersion, by, version)
				}
			}
		}
	}
}

// publish loads the next version on every ready engine; one that serves it is enough.
func (c *chaos) publish(ctx context.Context) {
	v := c.version + 1
	a := adapterAt(c.t, fmt.Sprintf(`{"r":8,"lora_alpha":%d,"target_modules":["q_proj"]}`, v))
	a.Version, a.Name = v, v.Adapter(c.spec.Name)
	for loaded := false; !loaded && ctx.Err() == nil; pause(ctx, time.Second) {
		engines, err := c.registry.List(ctx)
		if err != nil {
			c.t.Error(err)
			return
		}
		for _, e := range engines {
			if e.State != enginestate.EngineReady {
				continue
			}
			loading, cancel := context.WithTimeout(ctx, 10*time.Second)
			if _, err := (fleet.Loader{}).Load(loading, c.client(e.URL), e.ID, a); err == nil {
				loaded = c.registry.Loaded(ctx, e.ID, a.Name) == nil
			}
			cancel()
		}
	}
	if err := c.registry.Want(ctx, a); err != nil && ctx.Err() == nil {
		c.t.Error(err)
	}
	if old := v - rollout.PolicyVersion(c.spec.Buffer.MaxStaleness) - 2; old > 0 {
		if err := c.registry.Unwant(ctx, old.Adapter(c.spec.Name)); err != nil && ctx.Err() == nil {
			c.t.Error(err)
		}
	}
	if err := c.buffer.SetVersion(ctx, c.spec.Name, v, 0); err != nil && ctx.Err() == nil {
		c.t.Error(err)
	}
	c.mu.Lock()
	c.version = v
	c.mu.Unlock()
}

// misfortune is one way to misbehave. One that lasts longer than within must have been found by then: see
// docs/engines.md; zero: the engine need not be taken out of service for it.
type misfortune struct {
	name   string
	fault  enginesim.Fault // with no kind: the engine is killed, and comes back without adapters
	within time.Duration
}

var misfortunes = []misfortune{
	{name: "killed", within: 5 * time.Second},
	{name: "hung", fault: enginesim.Fault{Kind: enginesim.FaultHang}, within: 20 * time.Second},
	{name: "completions hung", fault: enginesim.Fault{Kind: enginesim.FaultHang, Path: "/v1/completions"},
		within: 20 * time.Second},
	{name: "trickling", within: time.Minute,
		fault: enginesim.Fault{Kind: enginesim.FaultTrickle, Path: "/v1/completions", Every: time.Second}},
	{name: "core dead", fault: enginesim.Fault{Kind: enginesim.FaultDead}, within: 5 * time.Second},
	{name: "slow", fault: enginesim.Fault{Kind: enginesim.FaultSlow, Factor: 8}},
	{name: "503", fault: enginesim.Fault{Kind: enginesim.FaultOverload, Requests: 30}},
	{name: "scaling", fault: enginesim.Fault{Kind: enginesim.FaultScaling, Requests: 30, Path: "/v1/completions"}},
	{name: "429", fault: enginesim.Fault{Kind: enginesim.FaultStatus, Status: 429, Requests: 30, Path: "/v1/"}},
	{name: "truncated", fault: enginesim.Fault{Kind: enginesim.FaultTruncate, Bytes: 60, Requests: 5}},
	{name: "dropped", fault: enginesim.Fault{Kind: enginesim.FaultDrop, Requests: 5}},
}

// torment makes one engine after the other misbehave, several at once, until n faults are over.
func (c *chaos) torment(ctx context.Context, rng *rand.Rand, n int) {
	var suffering sync.WaitGroup
	free := make(chan rollout.EngineID, chaosEngines)
	for _, i := range rng.Perm(chaosEngines) {
		free <- rollout.EngineID('a' + rune(i))
	}
	for range n {
		id := <-free
		what, lasts := misfortunes[rng.IntN(len(misfortunes))], time.Duration(3+rng.IntN(40))*time.Second
		rest := time.Duration(5+rng.IntN(15)) * time.Second
		suffering.Go(func() {
			if err := c.strike(ctx, id, what, lasts); err != nil && ctx.Err() == nil {
				c.t.Errorf("%s on %s: %v", what.name, id, err)
			}
			pause(ctx, rest)
			free <- id
		})
		pause(ctx, time.Duration(rng.IntN(4))*time.Second)
	}
	suffering.Wait()
}

func (c *chaos) strike(ctx context.Context, id rollout.EngineID, what misfortune, lasts time.Duration) error {
	before, err := c.registry.Get(ctx, id)
	if err != nil {
		return err
	}
	began := time.Now()
	if what.fault.Kind == "" {
		err = c.sims[id].Restart(ctx, lasts)
	} else {
		err = c.sims[id].Inject(ctx, what.fault)
	}
	if err != nil {
		return err
	}
	pause(ctx, lasts)
	if what.within > 0 && before.State == enginestate.EngineReady {
		c.detected(id, what, began, lasts)
	}
	if what.fault.Kind == enginesim.FaultDead {
		return c.sims[id].Restart(ctx, 5*time.Second)
	}
	if what.fault.Kind != "" {
		return c.sims[id].Heal(ctx)
	}
	return nil
}

// detected finds when the keeper took an engine out of service.
func (c *chaos) detected(id rollout.EngineID, what misfortune, began time.Time, lasts time.Duration) {
	events := c.events.all()
	c.events.mu.Lock()
	defer c.events.mu.Unlock()
	for _, e := range events {
		body, ok := e.Body.(telemetry.EngineChanged)
		if !ok || e.Engine != id || e.At.Before(began) || body.State == enginestate.EngineReady {
			continue
		}
		if took := e.At.Sub(began); took <= lasts {
			c.found[what.name] = append(c.found[what.name], took)
			if took > what.within {
				c.t.Errorf("engine %s was found %s after %v, want %v", id, what.name, took, what.within)
			}
			return
		}
	}
	if lasts > what.within {
		c.t.Errorf("engine %s was %s for %v, and nobody noticed", id, what.name, lasts)
	}
}

// TestChaos: whatever engines do, every step gets its whole batch, every turn is by the version that it says, and no
// request outlives its deadline.
func TestChaos(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newChaos(t)
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		over := make(chan struct{})
		go func() {
			defer close(over)
			c.torment(ctx, rand.New(rand.NewPCG(*chaosSeed, 0)), *chaosFaults)
		}()
		steps := c.train(ctx, over)
		took := time.Since(began)
		<-over
		cancel()
		c.games.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.late) > 0 {
			t.Errorf("%d requests outlived their deadline, such as %s", len(c.late), c.late[0])
		}
		if steps == 0 || c.version == 0 {
			t.Errorf("%d steps, version %d", steps, c.version)
		}
		stats := c.dispatcher.Snapshot()
		t.Logf("%d faults in %v: %d steps complete, %d versions, %d groups; "+
			"%d requests served, %d dispatched again, %d attempts at games repeated",
			*chaosFaults, took, steps, c.version, c.next, stats.Completed, stats.Redispatched, c.retries)
		for _, what := range slices.Sorted(maps.Keys(c.found)) {
			times := c.found[what]
			slices.Sort(times)
			t.Logf("%s: found %d times, after %.1f s to %.1f s, median %.1f s",
				what, len(times), times[0].Seconds(), times[len(times)-1].Seconds(), times[len(times)/2].Seconds())
		}
	})
}

// alone is the engines as their only worker's dispatcher is told of them.
func alone(engines []enginestate.Engine) []enginestate.Engine {
	all := slices.Clone(engines)
	for i := range all {
		all[i].MaxInFlight = all[i].Limit()
		if all[i].Recalled {
			all[i].State = enginestate.EngineLost
		}
	}
	return all
}
