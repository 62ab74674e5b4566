package crashtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/kit/filelock"
	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/retry"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/scaledfleet"
	"github.com/millrace/millrace/internal/scaling/supply"
	"github.com/millrace/millrace/trials/stack"
)

// What happens to a fleet that scales. All are of the deck Scaling.
const (
	ScaleUp   Kind = "scale-up"   // more engines are wanted
	ScaleDown Kind = "scale-down" // fewer are
	// KillWhileStarting has engines bought, and kills every worker and a starting engine in the middle of it.
	KillWhileStarting Kind = "kill-while-starting"
	// KillReady has an engine bought and kills it, or its keeper, as soon as it serves.
	KillReady Kind = "kill-ready"
	// KillDraining has an engine given back and kills it, or its keeper, while it is drained.
	KillDraining Kind = "kill-draining"
	// FreezeWorker stops a worker in the middle of a change, for longer than its leases.
	FreezeWorker Kind = "freeze-worker"
	// FailProvider and HangProvider keep the provider from listing engines while some are given back or bought.
	FailProvider Kind = "fail-provider"
	HangProvider Kind = "hang-provider"
	// FailStarts has engines bought that end in their cold start, for a while.
	FailStarts Kind = "fail-starts"
	// TerminateScaling terminates the workflow that scales the fleet.
	TerminateScaling Kind = "terminate-scaling"
)

// Scaling is the deck of what happens to a fleet that scales, mixed with deaths.
const Scaling Deck = "scaling"

// ScalingKinds lists the kinds of the deck of scaling, where Redis is laid out so. All other kinds than its own find a
// fleet that is being changed, every second time.
func ScalingKinds(redis Layout) []Kind {
	kinds := []Kind{
		ScaleUp, ScaleUp, ScaleDown, ScaleDown, KillWhileStarting, KillWhileStarting, KillReady, KillDraining, FreezeWorker,
		FailProvider, HangProvider, FailStarts, TerminateScaling, KillWorker, KillWorker, KillServer, KillTrainer,
		KillTemporal, KillRedis, KillAll, StopWorker, StopRedis, EndWorker, TemporalOutage, StaleRedis, TornRedis,
	}
	switch redis {
	case Sentinel:
		return append(kinds, Failover, Failover, SplitRedis)
	case Cluster:
		return append(kinds, Failover, Failover, MoveSlot, MoveSlot)
	case Single:
	}
	return kinds
}

// Of the engines that are bought: they are reached through the recorder, which listens at the same ports of another
// address of this host, from the moment that an engine runs at one.
const (
	mostBought    = 3
	boughtPorts   = 500 // none is taken twice, since the recorder stays
	boughtHost    = "127.0.0.2"
	boughtCold    = "4s"
	scalingID     = "millrace/scaling"
	scalingUpdate = "settings"
	enginePrice   = 36.0 // $ an hour: a cent a second
)

// boughtEngines is what the harness knows of engines that are bought.
type boughtEngines struct {
	first   int    // port
	dir     string // of the provider's state
	release func() // of the file on which they live

	mu     sync.Mutex
	began  time.Time
	ledger boughtLedger
}

// prepareScaling puts the recorder before every engine that is bought, until release.
func (s *service) prepareScaling(ctx context.Context) (err error) {
	if s.cfg.Deck != Scaling {
		return nil
	}
	b := &boughtEngines{dir: filepath.Join(s.cfg.Dir, "bought"), began: time.Now()}
	if b.first, err = freeport.Port(); err != nil {
		return err
	}
	b.first = min(b.first, 65535-boughtPorts)
	if err := b.writeStarter(); err != nil {
		return err
	}
	unlock, err := filelock.Lock(ctx, filepath.Join(s.cfg.Dir, "lifeline"))
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.recordBought(watching, b)
	}()
	b.release = func() {
		stop()
		<-ended
		unlock()
	}
	s.bought = b
	return nil
}

// recordBought puts the recorder before every engine that begins to run, and enters what runs, until ctx is done.
func (s *service) recordBought(ctx context.Context, b *boughtEngines) {
	recorded := map[int]bool{}
	for retry.Pause(ctx, 100*time.Millisecond) == nil {
		running, _ := b.running()
		b.mu.Lock()
		b.ledger.look(time.Now(), running)
		b.mu.Unlock()
		for _, p := range running {
			if recorded[p.port] {
				continue
			}
			_, err := s.recorder.serveAt(fmt.Sprintf("%s:%d", boughtHost, p.port), engines+len(recorded),
				fmt.Sprintf("127.0.0.1:%d", p.port))
			if err != nil {
				s.say("  %v", err) // tried again
				continue
			}
			recorded[p.port] = true
		}
	}
}

// scalingSection is the section of the configuration by which the fleet scales.
func (s *service) scalingSection() string {
	if s.bought == nil {
		return ""
	}
	return fmt.Sprintf(`scaling:
  provider: process
  policy: fixed
  engines: %d
  min: 0
  max: %d
  window: 1s
  price: %g
  deployment: %s
  process:
    command: "/bin/sh %s {millrace} engine simulate --port {port} --speed %s --cold-start %s"
    env: ["%s={id}"]
    host: %s
    ports: %d-%d
    state_dir: %q
    lifeline: %q
    grace: 2s
`, engines+1, engines+mostBought, enginePrice, prefix, s.bought.starter(), engineSpeed, boughtCold, boughtIDVariable, boughtHost,
		s.bought.first, s.bought.first+boughtPorts-1, s.bought.dir, filepath.Join(s.cfg.Dir, "lifeline"))
}

// scalingFault does a fault of scaling.
func (in *injector) scalingFault(ctx context.Context, f Fault) (back func(), err error) {
	switch f.Kind {
	case ScaleUp:
		return nil, in.wantMore(ctx, f)
	case ScaleDown:
		return nil, in.wantFewer(ctx, f)
	case KillWhileStarting:
		return nil, in.killWhileStarting(ctx, f)
	case KillReady:
		return nil, in.killReady(ctx, f)
	case KillDraining:
		return nil, in.killDraining(ctx, f)
	case FreezeWorker:
		return in.freezeWorker(ctx, f)
	case FailProvider, HangProvider:
		return in.stopProvider(ctx, f)
	case FailStarts:
		return in.failStarts(ctx, f)
	case TerminateScaling:
		_, err := in.service.temporal.terminate(ctx, "FleetScaling", 0)
		return nil, err
	}
	return nil, fmt.Errorf("nobody knows how to do %s", f.Kind)
}

// changeWanted has another number of engines wanted, so that the fault that follows finds the fleet in the middle of
// it. Faults of the fleet do so themselves.
func (in *injector) changeWanted(ctx context.Context, f Fault) {
	if in.service.bought == nil || f.Kind.ofScaling() || f.Chance%2 == 0 {
		return
	}
	change := in.wantMore
	if f.Chance%8 >= 6 {
		change = in.wantFewer
	}
	if err := change(ctx, f); err != nil {
		in.service.say("  the number that is wanted stays: %v", err)
		return
	}
	_ = retry.Pause(ctx, time.Duration(f.Chance%1500)*time.Millisecond)
}

// ofScaling reports whether a kind is the deck's own.
func (k Kind) ofScaling() bool {
	switch k {
	case ScaleUp, ScaleDown, KillWhileStarting, KillReady, KillDraining, FreezeWorker, FailProvider, HangProvider,
		FailStarts, TerminateScaling:
		return true
	}
	return false
}

// view is what is told of scaling.
func (in *injector) view(ctx context.Context) (supply.View, error) {
	registry := scaledfleet.Registry{Registry: fleet.NewRegistry(in.service.rdb, prefix, time.Now)}
	view, _, err := registry.Scaling(ctx)
	return view, err
}

// wantMore has more engines bought. Where as many are as may be, one goes, so that the next one has something to buy.
func (in *injector) wantMore(ctx context.Context, f Fault) error {
	view, err := in.view(ctx)
	if err != nil {
		return err
	}
	to := engines + 1 + f.Chance%mostBought
	switch {
	case view.Wanted >= engines+mostBought:
		to = engines + mostBought - 1
	case to <= view.Wanted:
		to = view.Wanted + 1
	}
	return in.service.want(ctx, to)
}

// wantFewer has engines given back.
func (in *injector) wantFewer(ctx context.Context, f Fault) error {
	view, err := in.view(ctx)
	if err != nil {
		return err
	}
	if view.Wanted <= engines {
		return errors.New("there is nothing to give back")
	}
	return in.service.want(ctx, engines+f.Chance%(view.Wanted-engines))
}

// killWhileStarting kills every worker in the middle of a purchase, and an engine every second time.
func (in *injector) killWhileStarting(ctx context.Context, f Fault) error {
	if err := in.wantMore(ctx, f); err != nil {
		return err
	}
	if err := retry.Pause(ctx, time.Duration(f.Chance%2000)*time.Millisecond); err != nil {
		return err
	}
	if running, _ := in.service.bought.running(); f.Chance%2 == 0 && len(running) > 0 {
		newest := slices.MaxFunc(running, func(a, b boughtProcess) int { return a.port - b.port })
		_ = syscall.Kill(newest.pid, syscall.SIGKILL) // it may have ended
	}
	var last error
	for i := range workers {
		if err := in.signal(fmt.Sprintf("worker-%d", i), syscall.SIGKILL); err != nil {
			last = err
		}
	}
	return last
}

// phaseWithin is how long a fault waits for an engine to come into a phase.
const phaseWithin = 25 * time.Second

// killReady has an engine bought, and kills it as soon as it serves.
func (in *injector) killReady(ctx context.Context, f Fault) error {
	before, err := in.view(ctx)
	if err != nil {
		return err
	}
	if before.Wanted >= engines+mostBought {
		if err := in.service.want(ctx, engines); err != nil {
			return err
		}
	}
	if err := in.wantMore(ctx, f); err != nil {
		return err
	}
	return in.killInPhase(ctx, f, enginestate.EngineReady, before)
}

// killDraining has an engine given back, and kills it while it is drained.
func (in *injector) killDraining(ctx context.Context, f Fault) error {
	before, err := in.view(ctx)
	if err != nil {
		return err
	}
	if before.Wanted <= engines {
		if before, err = in.buyOne(ctx); err != nil {
			return err
		}
	}
	if err := in.wantFewer(ctx, f); err != nil {
		return err
	}
	return in.killInPhase(ctx, f, enginestate.EngineDraining, before)
}

// buyOne has one engine bought, and waits until it serves.
func (in *injector) buyOne(ctx context.Context) (supply.View, error) {
	var view supply.View
	if err := in.service.want(ctx, engines+1); err != nil {
		return view, err
	}
	err := stack.Await(ctx, phaseWithin, func(ctx context.Context) (err error) {
		if view, err = in.view(ctx); err == nil && view.Actual.Ready <= engines {
			err = errors.New("no engine that was bought serves")
		}
		return err
	})
	return view, err
}

// killInPhase kills the first engine that comes into a phase, or its keeper, which takes the engine with it.
func (in *injector) killInPhase(ctx context.Context, f Fault, phase enginestate.EngineState, before supply.View) error {
	was := map[string]enginestate.EngineState{}
	for _, e := range before.Engines {
		was[string(e.ID)] = e.State
	}
	ctx, cancel := context.WithTimeout(ctx, phaseWithin)
	defer cancel()
	for retry.Pause(ctx, 20*time.Millisecond) == nil {
		view, err := in.view(ctx)
		if err != nil {
			continue
		}
		for _, e := range view.Engines {
			if id := string(e.ID); e.State == phase && was[id] != phase && in.service.bought.kill(id, f.Chance%3 == 0) {
				return nil
			}
		}
	}
	return fmt.Errorf("no engine comes into phase %s", phase)
}

// kill kills an engine, or its keeper.
func (b *boughtEngines) kill(id string, keeper bool) bool {
	all, keepers := b.running()
	if keeper {
		all = keepers
	}
	for _, p := range all {
		if p.id == id && syscall.Kill(p.pid, syscall.SIGKILL) == nil {
			return true
		}
	}
	return false
}

// killBought kills every engine that was bought with its keeper, as when the machine dies.
func (b *boughtEngines) killBought() {
	if b == nil {
		return
	}
	all, keepers := b.running()
	for _, p := range append(keepers, all...) {
		_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have ended
	}
}

// freezeWorker stops a worker while engines are bought or given back. It wakes up when others have its work.
func (in *injector) freezeWorker(ctx context.Context, f Fault) (back func(), err error) {
	change := in.wantMore
	if f.Chance%3 == 0 {
		change = in.wantFewer
	}
	if err := change(ctx, f); err != nil {
		return nil, err
	}
	if err := retry.Pause(ctx, time.Duration(f.Chance%2000)*time.Millisecond); err != nil {
		return nil, err
	}
	name := in.process(ctx, "worker", f.Index)
	if err := in.signal(name, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	return func() { _ = in.signal(name, syscall.SIGCONT) }, nil
}

// wantWithin bounds a change of the number that is wanted: that of a workflow whose worker has died takes 10 s.
const wantWithin = 25 * time.Second

// want has so many engines wanted, as an operator sets it.
func (s *service) want(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, wantWithin)
	defer cancel()
	handle, err := s.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: scalingID, UpdateName: scalingUpdate, Args: []any{map[string]any{"engines": n}},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return handle.Get(ctx, nil)
}
