package crashtest

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/trials/stack"
)

// bound is, of the faults of names and ends, the time within which the run must go on: a step completed and a group
// launched, both after the fault was taken back. A fault of another deck is not followed: it may be overtaken by the
// next one.
func bound(k Kind) time.Duration {
	switch k {
	case HangLoad, EnginesOutage, ReturnName:
		return 45 * time.Second // engines find one another again, and load
	case ExpireName:
		return retention + 30*time.Second
	case TerminateRun, ForgetRun, TerminateFleet, TerminateGroup:
		return 30 * time.Second
	case PublishAgain, PublishOther, SecondDeployment, EndWorker:
		return 20 * time.Second
	case KillWorker, KillServer, KillEngine:
		return 30 * time.Second
	}
	return stuckAfter
}

// bound is the stated one, as often as the harness is patient.
func (in *injector) bound(k Kind) time.Duration { return in.service.cfg.patient(bound(k)) }

// recoveriesOfNames measures every fault of the deck of names: until the run went on.
func recoveriesOfNames(done []injected) []Recovery {
	var all []Recovery
	for _, kind := range append(NameKinds(), ReturnName, ExpireName) {
		rv := Recovery{Kind: kind, What: fmt.Sprintf("a step and a group later; bound %s", bound(kind))}
		for _, d := range done {
			switch {
			case d.Kind != kind:
			case d.wentOn.IsZero():
				rv.Open++
			default:
				rv.Seconds = append(rv.Seconds, d.wentOn.Sub(d.began()).Seconds())
			}
		}
		all = append(all, rv)
	}
	return all
}

// follow waits until the run goes on after a fault, and complains when that takes longer than its bound.
func (in *injector) follow(ctx context.Context, d *injected) {
	p, began := in.watch.current(), time.Now()
	_, base := in.watch.now()
	err := stack.Await(ctx, in.bound(d.Kind), func(context.Context) error {
		if in.watch.current().label() != p.label() {
			return nil // it has come to its end
		}
		_, now := in.watch.now()
		return wentOn(p, base, now)
	})
	switch {
	case err == nil:
		d.wentOn = time.Now()
	case ctx.Err() == nil:
		in.stuck++
		in.complain("%s: stuck after %s: %v within %s", p.label(), d.Fault, err, time.Since(began).Round(time.Second))
	}
}

// wentOn says what has not happened since.
func wentOn(p plan, before, now buffer.Account) error {
	steps, all := rollout.Step(p.cfg.Steps), int64(p.cfg.Steps*p.cfg.GroupsPerStep)
	switch {
	case now.NextStep >= steps:
		return nil
	case now.NextStep <= before.NextStep:
		return fmt.Errorf("step %d was not completed", before.NextStep)
	case now.Launched <= before.Launched && now.Launched-now.Counts.Dropped < all:
		return fmt.Errorf("no group was launched after the %dth", before.Launched)
	}
	return nil
}

// expect complains when something does not hold within the fault's bound.
func (in *injector) expect(ctx context.Context, f Fault, what string, holds func(context.Context) error) {
	if err := stack.Await(ctx, in.bound(f.Kind), holds); err != nil && ctx.Err() == nil {
		in.stuck++
		in.complain("after %s: not within %s: %s: %v", f.Kind, in.bound(f.Kind), what, err)
	}
}
