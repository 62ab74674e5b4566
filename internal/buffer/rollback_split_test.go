package buffer_test

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/runmachine"
)

// split promotes a replica that lags, while the old master, which was cut off, serves on for a server and its trainers
// who have not heard of it: workers and the run's workflow have. The next time, the split heals.
func (w *rollbacks) split() {
	if w.cutOff != nil {
		w.heal()
		return
	}
	w.note("split")
	w.cutOff = w.master
	w.master = w.newMaster(w.t)
	w.saved.Restore(w.t, w.rdb)
	w.compared()
}

// heal has the server hear of the new master, and all that was written to the old one vanish. Or the old one is
// promoted again, as it is. What the run was told by the old side it has dealt with before: docs/guarantees.md says
// what may happen else.
func (w *rollbacks) heal() {
	w.event(runmachine.BufferChanged{})
	old := w.cutOff
	w.cutOff = nil
	mark := w.m.Mark // as a process that knows nothing asks the workflow
	if w.rng.IntN(2) == 0 {
		a, err := old.Account(w.ctx, run)
		w.ok(err)
		mark = a.Mark
	}
	if w.rng.IntN(4) == 0 {
		w.note("heal, the old master serves on")
		w.master = old
		if w.rng.IntN(2) == 0 {
			w.process(w.master)
		}
	} else {
		w.note("heal")
		w.saved, w.ledger.saved = nil, 0
	}
	w.Know(run, mark)
	if w.rng.IntN(2) == 0 {
		w.claim(w.ledger.generation, w.ledger.next) // a call comes first
		w.claim(max(0, w.ledger.generation-1), w.ledger.next)
	}
	w.compared()
}

// compared has the run compare its account. Where Redis has lost what a trainer was told, it must notice.
func (w *rollbacks) compared() {
	known, told := w.m.Mark, w.told()
	before := w.m.Rollbacks
	w.event(runmachine.BufferChanged{})
	w.pass(2 * time.Second)
	if !told && w.m.Rollbacks == before {
		w.t.Errorf("Redis does not know what trainers were told, and nobody noticed: %+v", known)
	}
}

// told reports whether the account has all that trainers were told.
func (w *rollbacks) told() bool {
	a, err := w.Account(w.ctx, run)
	if rollout.Refused(err, rollout.NoSuchRun) {
		return w.ledger.told == 0
	}
	w.ok(err)
	return a.NextStep >= w.ledger.next && a.Generation >= w.ledger.generation
}
