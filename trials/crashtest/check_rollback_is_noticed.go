package crashtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/trials/stack"
)

// noticedWithin bounds how long a rollback may go unnoticed, and how long a run may then take to repair its account.
const noticedWithin = 30 * time.Second

// before is what the account was when a fault began to be prepared.
type before struct {
	p      plan
	era    int64
	serial int64 // that is surely kept
	note   string
}

// beforeRollback looks at the account that Redis will come back with, or an earlier one.
func (in *injector) beforeRollback(ctx context.Context) (before, error) {
	p := in.watch.current()
	if p.number == 0 {
		return before{}, errors.New("no run is in progress")
	}
	b := before{p: p}
	err := stack.Await(ctx, quiet*in.service.cfg.Every, func(ctx context.Context) error { // Redis may just be coming up
		a, err := in.service.account(ctx, p)
		b.era, b.serial = a.Mark.Era, a.Mark.Serial
		if err == nil && !a.Confirmed() {
			err = errors.New("the run has not compared its account")
		}
		return err
	})
	return b, err
}

// leaveNote writes something beside the account that is lost with whatever the trainer was told last, and answers how
// far the account has come.
func (in *injector) leaveNote(ctx context.Context, b *before) (serial int64, err error) {
	b.note = fmt.Sprint(time.Now().UnixNano())
	err = stack.Await(ctx, quiet*in.service.cfg.Every, func(ctx context.Context) error {
		a, err := in.service.account(ctx, b.p)
		if err != nil {
			return err
		}
		serial = a.Mark.Serial
		return in.service.rdb.Set(ctx, b.p.keptKey(), b.note, time.Hour).Err()
	})
	return serial, err
}

// noticed waits until the run has compared its account with the one that came back, and complains when a rollback of
// what a trainer was told has brought no repair.
func (in *injector) noticed(ctx context.Context, b before, told bool) {
	r := rolledBack{told: told}
	over := false
	err := stack.Await(ctx, in.service.cfg.patient(noticedWithin), func(ctx context.Context) error {
		if in.watch.current().label() != b.p.label() {
			over = true // it has come to its end
			return nil
		}
		status, err := in.service.store.Status(ctx, b.p.id())
		if err != nil {
			return err
		}
		now, err := in.service.account(ctx, b.p)
		if err != nil {
			return err
		}
		note, _ := in.service.rdb.Get(ctx, b.p.keptKey()).Result() // none: it is lost
		over = status.State.Over()
		r.kept = b.note != "" && note == b.note
		r.repairs = now.Mark.Era > b.era
		r.shown = status.Rollback != nil && status.Rollback.Era >= now.Mark.Era
		switch {
		case over:
			return nil
		case !now.Confirmed():
			return errors.New("the run has not compared its account")
		}
		return r.missing()
	})
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		in.complain("%s: Redis came back older, and after %s: %v", b.p.label(), in.service.cfg.patient(noticedWithin), err)
	case over:
		in.service.say("  %s was over before it could tell", b.p.label())
		return
	}
	in.rollbacks.add(r)
	if err == nil && !r.repairs {
		in.service.say("  nothing was lost that a trainer was told (told since: %t, kept: %t)", r.told, r.kept)
	}
}
