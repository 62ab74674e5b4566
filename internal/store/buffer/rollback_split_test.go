package buffer_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/run/runmachine"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/redistest"
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
	old, both := w.cutOff, w.left != nil
	w.cutOff, w.left = nil, nil
	mark := w.m.Mark // as a process that knows nothing asks the workflow
	if !both && w.rng.IntN(2) == 0 {
		a, err := old.Account(w.ctx, run)
		w.ok(err)
		mark = a.Mark
	}
	if w.rng.IntN(4) == 0 && !w.m.State.Over() { // else it is the keeper's
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

// TestTwoMastersGiveNoGenerationTwice promotes a replica that lacks nothing, so that the run confirms its account as it
// is: trainers that announce themselves to it and to the old master, which serves on, are told apart.
func TestTwoMastersGiveNoGenerationTwice(t *testing.T) {
	t.Parallel()
	w := newRollbacks(t, rand.New(rand.NewPCG(1, 7)))
	w.attachFrom(nil)
	w.saved, w.ledger.saved = redistest.ImageOf(t, w.rdb), w.ledger.told
	w.split()
	before := w.ledger.generation
	old, _, err := w.cutOff.Attach(w.ctx, run, nil)
	w.ok(err)
	next, _, err := w.Attach(w.ctx, run, nil)
	w.ok(err)
	if old <= before || next <= old {
		t.Errorf("the trainers have the generations %d, %d with the old master and %d with the next one", before, old, next)
	}
	again, _, err := w.Attach(w.ctx, run, nil)
	w.ok(err)
	expect(t, "the one after", again, next+1)
}

// leftBehind is a trainer that goes on with the server of a master that was cut off, when another one has announced
// itself to the next master.
type leftBehind struct {
	generation rollout.TrainerGeneration
	next       rollout.Step
	ended      bool // the old master's era: the next one was repaired
	announced  bool
}

// leaveBehind has a trainer announce itself to the next master, while the one before stays with the old one. The run
// has dealt with what it was told before: docs/guarantees.md says what may happen else.
func (w *rollbacks) leaveBehind() {
	if w.cutOff == nil || w.left != nil {
		return
	}
	w.note("a trainer announces itself to the next master")
	w.compared()
	before := w.ledger.generation
	old, err := w.cutOff.Account(w.ctx, run)
	w.ok(err)
	w.left = &leftBehind{generation: before, next: w.ledger.next, ended: old.Mark.Era < w.m.Mark.Era}
	w.attach(w.rng.IntN(3) == 0)
	if w.ledger.generation == before {
		w.left = nil // it was not served
	}
}

// goOnBehind has the trainer that is left behind do something, and the run deal with what it is told of that. Where the
// next master lacked nothing, so that there was no repair, a trainer announces itself to the old one and that is all:
// docs/guarantees.md says what may happen else.
func (w *rollbacks) goOnBehind() {
	l, server := w.left, w.cutOff
	var given []string
	step, what := l.next+rollout.Step(w.rng.IntN(2)), w.rng.IntN(5)
	switch {
	case !l.ended && l.announced:
		return
	case what == 0 || !l.ended:
		l.attach(w, server)
	case what == 1:
		_, fresh, err := server.Complete(w.ctx, run, l.next, l.generation, report(int(l.next)), steprecord.FleetView{})
		w.note("behind: complete %d by %d: %v", l.next, l.generation, err)
		if fresh && err == nil {
			l.next++
		}
	default:
		b, err := server.Claim(w.ctx, run, step, l.generation, buffer.Share{})
		w.note("behind: claim %d by %d: %v", step, l.generation, err)
		if err == nil {
			given = trajectoriesOf(b)
		}
	}
	w.witnessedBy(server)
	w.compared()
	for _, id := range given {
		if _, owned := w.ledger.owner[id]; !owned { // else the next master was the first
			w.ledger.spent[id] = step
		}
	}
}

// attach announces another trainer to the old master.
func (l *leftBehind) attach(w *rollbacks, server *master) {
	generation, next, err := server.Attach(w.ctx, run, nil)
	w.note("behind: attach: %d %d %v", generation, next, err)
	l.announced = true
	if err != nil {
		return
	}
	if w.ledger.given[generation] {
		w.t.Errorf("generation %d is given again, by the old master", generation)
	}
	w.ledger.given[generation] = true
	l.generation, l.next = generation, next
}

// trajectoriesOf names a batch's trajectories by what they are.
func trajectoriesOf(b *rollout.Batch) (ids []string) {
	for _, g := range b.Groups {
		for _, trajectory := range g.Trajectories {
			ids = append(ids, fmt.Sprint(trajectory.ID, trajectory.Reward))
		}
	}
	return ids
}
