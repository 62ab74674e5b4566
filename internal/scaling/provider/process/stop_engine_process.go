package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// stopPatience is how much longer than its grace an engine may take to end.
const stopPatience = 5 * time.Second

// Stop ends an engine, waits until its processes are gone, and forgets it. If ctx is over before, the engine goes on
// ending, and Stop must be called again.
func (p *Provider) Stop(ctx context.Context, id rollout.EngineID) error {
	if provider.ValidateID(id) != nil {
		return ctx.Err() // nothing is ever started under it
	}
	o, err := p.tellToEnd(ctx, id)
	if o == nil || err != nil {
		return wrap(err, "stop engine %s", id)
	}
	if err := p.awaitEnd(ctx, o); err != nil {
		return fmt.Errorf("stop engine %s: %w", id, err)
	}
	return wrap(p.forget(ctx, o), "stop engine %s", id)
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// tellToEnd asks the keeper to end the engine. No order: nil.
func (p *Provider) tellToEnd(ctx context.Context, id rollout.EngineID) (*order, error) {
	unlock, err := p.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir := filepath.Join(p.dir, string(id))
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	o := readOrder(dir)
	if err := o.setStopping(); err != nil && o.bad == nil { // of one that cannot be read the keeper may live all the same
		return nil, err
	}
	return o, o.signalKeeper(syscall.SIGTERM)
}

// endPoll is how often it is looked whether an engine that ends has ended.
const endPoll = 20 * time.Millisecond

// awaitEnd waits for the keeper's end, and kills what takes too long.
func (p *Provider) awaitEnd(ctx context.Context, o *order) error {
	grace := p.cfg.Grace.Std()
	if o.Place != nil {
		grace = o.Place.Grace
	}
	overdue := time.Now().Add(grace + p.patience)
	for {
		ended, err := p.hasEnded(ctx, o, time.Now().After(overdue))
		if ended || err != nil {
			return err
		}
		if retry.Pause(ctx, endPoll) != nil {
			return fmt.Errorf("it has not ended yet, and is killed %s after it was told to: %w", grace, ctx.Err())
		}
	}
}

// hasEnded reports whether the keeper has gone, and kills one that is overdue.
func (p *Provider) hasEnded(ctx context.Context, o *order, overdue bool) (bool, error) {
	unlock, err := p.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	keeper, err := holder(o.file(keeperLock))
	if keeper == 0 || err != nil {
		return err == nil, err
	}
	if !overdue {
		return false, nil
	}
	return false, o.signalKeeper(syscall.SIGKILL)
}

// forget removes the files of an engine that has ended.
func (p *Provider) forget(ctx context.Context, o *order) error {
	unlock, err := p.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if again := readOrder(o.dir); again.bad == nil && o.bad == nil && again.Nonce != o.Nonce {
		return nil // it was forgotten by another caller, and ordered anew
	}
	r, _ := o.readRecord() // if unreadable, marked processes are found all the same
	killMarked(o.Nonce, r.Engine)
	p.keepLog(o)
	if err := removeOrder(o.dir); err != nil {
		return err
	}
	if p.keeper != nil {
		p.placePending(ctx) // its place is free; the next list reports failures
	}
	return nil
}

// removeOrder takes the order away at once, whatever happens while its files are removed.
func removeOrder(dir string) error {
	gone := filepath.Join(filepath.Dir(dir), unfinished+"removed-"+filepath.Base(dir))
	if err := os.RemoveAll(gone); err != nil {
		return err
	}
	if err := os.Rename(dir, gone); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return os.RemoveAll(gone)
}

// endedLogs is how many logs of engines that were stopped are kept.
const endedLogs = 20

// keepLog keeps the newest part of an engine's log beside those of other stopped engines. Failing to keep a log must
// not keep the engine.
func (p *Provider) keepLog(o *order) {
	info, err := os.Stat(o.file(logFile))
	if err != nil || info.Size() == 0 {
		return
	}
	dir := filepath.Join(p.dir, ".ended")
	if os.MkdirAll(dir, 0o700) != nil {
		return
	}
	_ = os.Rename(o.file(logFile), filepath.Join(dir, o.Since.Format("20060102T150405.000")+"-"+string(o.ID)+".log"))
	entries, err := os.ReadDir(dir) // by name, which begins with the time
	for i := 0; err == nil && i < len(entries)-endedLogs; i++ {
		_ = os.Remove(filepath.Join(dir, entries[i].Name()))
	}
}
