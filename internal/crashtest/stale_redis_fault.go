package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/stack"
)

// noticedWithin bounds how long a rollback may go unnoticed, and how long a run may then take to repair its account.
const noticedWithin = 30 * time.Second

// putRedisBack remembers what Redis has on disk. Taken back, Redis is killed and comes up with that: with its log as it
// was, whose end may be torn, as after a power cut, or as a backup has it.
func (in *injector) putRedisBack(ctx context.Context) (back func(), err error) {
	dir := filepath.Join(in.service.cfg.Dir, "redis", "appendonlydir")
	older, gone := dir+".older", dir+".gone"
	if err := errors.Join(os.RemoveAll(older), os.RemoveAll(gone)); err != nil {
		return nil, err
	}
	if err := os.CopyFS(older, os.DirFS(dir)); err != nil {
		return nil, fmt.Errorf("remember what Redis has: %w", err)
	}
	p := in.watch.current()
	before, err := in.service.account(ctx, p)
	if err != nil {
		return nil, err
	}
	return func() {
		told := in.awaitSomethingTold(ctx, p, before.Mark.Serial)
		// Redis goes on writing to files that nobody will find again.
		if err := errors.Join(os.Rename(dir, gone), os.Rename(older, dir)); err != nil {
			in.complain("put Redis back: %v", err)
			return
		}
		if err := in.signal("redis", syscall.SIGKILL); err != nil {
			in.service.say("  redis was dead already: %v", err)
		}
		in.noticed(ctx, p, before.Mark.Era, told)
	}, nil
}

// awaitSomethingTold waits a while until trainers have been told something since, and reports whether they were.
func (in *injector) awaitSomethingTold(ctx context.Context, p plan, serial int64) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*in.service.cfg.Every)
	defer cancel()
	for {
		if now, err := in.service.account(ctx, p); err == nil && now.Mark.Serial > serial {
			return true
		}
		if retry.Pause(ctx, watchEvery) != nil {
			return false
		}
	}
}

// noticed waits until the run has compared its account with the one that came back, and complains when a rollback of
// what a trainer was told has brought no repair.
func (in *injector) noticed(ctx context.Context, p plan, era int64, told bool) {
	err := stack.Await(ctx, noticedWithin*time.Duration(max(1, in.patience)), func(ctx context.Context) error {
		if in.watch.current().label() != p.label() {
			return nil // it has come to its end
		}
		status, err := in.service.store.Status(ctx, p.id())
		if err != nil {
			return err
		}
		now, err := in.service.account(ctx, p)
		switch {
		case err != nil:
			return err
		case status.State.Over():
			return nil
		case !now.Confirmed():
			return errors.New("the run has not compared its account")
		case told && now.Mark.Era <= era:
			return fmt.Errorf("era %d of the account goes on", era)
		case told && (status.Rollback == nil || status.Rollback.Era < now.Mark.Era):
			return errors.New("the run does not show it")
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		in.complain("%s: Redis came back older, and after %s: %v", p.label(), noticedWithin, err)
	}
	if told {
		in.rollbacks++
	}
}
