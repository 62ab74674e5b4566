package crashtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/supply"
	"github.com/millrace/millrace/trials/stack"
)

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
