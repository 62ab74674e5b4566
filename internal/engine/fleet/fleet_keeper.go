package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// KeeperConfig says how often the Keeper looks and how patient it is. Zero values take the defaults named.
type KeeperConfig struct {
	Registry *Registry
	Client   func(enginestate.Engine) Client
	Loader   Loader
	Emit     telemetry.Emitter // samples, and findings about files
	Tell     telemetry.Teller  // keeps a load's outcome before the engine's next change
	Sampler  *Sampler          // keeps samples of the fleet; nil keeps none
	// Follow brings in the engines that a list names, until its context is done; nil: operators alone add and remove.
	Follow   func(context.Context)
	Complain func(error) // hears what an operator should know

	Interval     time.Duration // between two looks at an engine; 1s
	ProbeTimeout time.Duration // total, of one look; 5s
	LostAfter    int           // looks without an answer; 3
	LoadPatience time.Duration // how long an engine may load before it is ready without what it still lacks; 20s
	FilesEvery   time.Duration // between two looks at the files of adapters in use; 10s
	RetryMax     time.Duration // longest pause before a load that failed is tried again; 30s
	Patience     time.Duration // how long Redis may be unavailable before Keep gives up; 30s

	CanaryEvery   time.Duration // how long a ready engine may show no sign of work before a canary is sent; 5s
	CanaryTimeout time.Duration // total, of one canary; 10s
	Quarantine    time.Duration // first pause before a broken engine is tried again, then doubled; 2s
	QuarantineMax time.Duration // longest such pause; 1m
	Flaps         int           // losses and restarts of a ready engine within FlapWindow that put it in quarantine; 3
	FlapWindow    time.Duration // 5m
	PaceWindow    time.Duration // over which engines are compared with each other; 30s

	changed *changedFiles
}

func (c KeeperConfig) withDefaults() KeeperConfig {
	c.Interval = cmp.Or(c.Interval, time.Second)
	c.ProbeTimeout = cmp.Or(c.ProbeTimeout, 5*time.Second)
	c.LostAfter = cmp.Or(c.LostAfter, 3)
	c.LoadPatience = cmp.Or(c.LoadPatience, runspec.DefaultLoadTimeout)
	c.FilesEvery = cmp.Or(c.FilesEvery, 10*time.Second)
	c.RetryMax = cmp.Or(c.RetryMax, 30*time.Second)
	c.Patience = cmp.Or(c.Patience, 30*time.Second)
	c.CanaryEvery = cmp.Or(c.CanaryEvery, 5*time.Second)
	c.CanaryTimeout = cmp.Or(c.CanaryTimeout, 10*time.Second)
	c.Quarantine = cmp.Or(c.Quarantine, 2*time.Second)
	c.QuarantineMax = cmp.Or(c.QuarantineMax, time.Minute)
	c.Flaps = cmp.Or(c.Flaps, 3)
	c.FlapWindow = cmp.Or(c.FlapWindow, 5*time.Minute)
	c.PaceWindow = cmp.Or(c.PaceWindow, 30*time.Second)
	if c.Complain == nil {
		c.Complain = func(error) {}
	}
	if c.Emit == nil {
		c.Emit = telemetry.Discard
	}
	if c.Tell == nil {
		c.Tell = telemetry.Discard
	}
	return c
}

// Keeper makes the engines what the Registry wants them to be, and the Registry what the engines are. An engine
// that does not answer is lost within LostAfter x (Interval + ProbeTimeout); one that refuses connections, within
// LostAfter x Interval. One that answers but makes no completions is quarantined within CanaryEvery + CanaryTimeout
// + 2 x Interval, and tried with one canary after growing pauses. So is one that was lost or restarted Flaps times,
// when it is back. Two Keepers at once do the same work twice, and no harm.
type Keeper struct {
	cfg    KeeperConfig
	paces  *paces
	limits *probeLimits
	watch  *Watch
	loads  *engineStretches
}

// NewKeeper makes a Keeper; Keep runs it.
func NewKeeper(cfg KeeperConfig) *Keeper {
	cfg = cfg.withDefaults()
	cfg.changed = &changedFiles{}
	return &Keeper{cfg: cfg, paces: newPaces(cfg.PaceWindow), limits: newProbeLimits(), loads: newEngineStretches()}
}

// Keep keeps the fleet until ctx is done, which is no error. Each engine has a loop in a goroutine of its own, so that
// one which hangs or loads delays no other. beat is called about once per interval while the Registry answers. When it
// has been unavailable for too long, Keep returns why.
func (k *Keeper) Keep(ctx context.Context, beat func()) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	if k.cfg.Follow != nil {
		running.Go(func() { k.cfg.Follow(ctx) })
	}
	running.Go(func() { k.cfg.changed.run(ctx, &k.cfg) })
	k.watch = k.cfg.Registry.Watch()
	loops := map[rollout.EngineID]*loopHandle{}
	tick := time.NewTicker(k.cfg.Interval)
	defer tick.Stop()
	answered := time.Now()
	sampled := answered
	for {
		err := k.syncLoops(ctx, loops, &running)
		now := time.Now()
		if err == nil {
			err = k.sample(ctx, now, now.Sub(sampled))
			sampled = now
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			answered = now
			beat()
		case now.Sub(answered) > k.cfg.Patience:
			return fmt.Errorf("keep fleet: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// loopHandle is a member's engineLoop as the Keeper knows it.
type loopHandle struct {
	member Member
	stop   context.CancelFunc
	wake   chan struct{} // buffered: the loop looks at once
}

// syncLoops starts a loop for every new member, wakes those whose members have changed, and stops those of members that
// are gone.
func (k *Keeper) syncLoops(ctx context.Context, loops map[rollout.EngineID]*loopHandle, running *sync.WaitGroup) error {
	members, err := k.watch.Members(ctx)
	if err != nil {
		return err
	}
	for id, m := range members {
		known := loops[id]
		if known == nil {
			loopCtx, stop := context.WithCancel(ctx)
			known = &loopHandle{m, stop, make(chan struct{}, 1)}
			loops[id] = known
			running.Go(func() { newEngineLoop(k.cfg, m, k.paces, k.limits).run(loopCtx, known.wake) })
		}
		if known.member != m {
			known.member = m
			select {
			case known.wake <- struct{}{}:
			default: // it has yet to look
			}
		}
	}
	for id, known := range loops {
		if _, present := members[id]; !present {
			known.stop()
			delete(loops, id)
		}
	}
	return nil
}

func (k *Keeper) sample(ctx context.Context, now time.Time, window time.Duration) error {
	engines, _, err := k.watch.Engines(ctx)
	if err != nil {
		return err
	}
	k.paces.add(now, engines)
	if k.cfg.Sampler == nil {
		return nil
	}
	queued, err := k.cfg.Registry.workers.Queued(ctx)
	if err != nil {
		return err
	}
	return errors.Join(k.cfg.Sampler.RecordEngines(ctx, now, k.loads.add(now, engines)),
		k.cfg.Sampler.Record(ctx, Summarise(now, window, engines, queued)))
}
