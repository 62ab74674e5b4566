package buffer_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	embedserver "github.com/alicebob/miniredis/v2/server"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/run/runmachine"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/redistest"
)

// FuzzRollback drives a run's own machine on an embedded Redis that is put back to what it was at any moment, or of
// which two masters serve at a time. Whatever happens: a step is never granted with another batch, unless its batch was
// lost and the trainer went back behind it; no trajectory is in two steps; only the trainer announced last is served; a
// completed step stays completed; every rollback that undid what a trainer was told is reported; and the run comes to
// its end. What trainers are told that stay with an old master when another one has announced itself to the next does
// not count, but is given to no other step, and so is no generation given twice.
func FuzzRollback(f *testing.F) {
	for seed := range seeds(10) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 7))
		w := newRollbacks(t, rng)
		for range 150 {
			if w.m.State.Over() {
				break // the rest is the keeper's
			}
			w.move()
			if t.Failed() {
				t.Fatalf("the moves:\n%s", strings.Join(w.log[max(0, len(w.log)-moves):], "\n"))
			}
		}
		w.finish()
		if t.Failed() {
			t.Fatalf("the moves:\n%s", strings.Join(w.log[max(0, len(w.log)-moves):], "\n"))
		}
	})
}

const moves = 300 // that a failure shows

// rollbacks is one run, its trainers, its groups' workflows, and a Redis that forgets.
type rollbacks struct {
	*master         // and a process that goes by it
	cutOff  *master // with the server that serves trainers, until it hears of the other one
	left    *leftBehind
	rng     *rand.Rand
	lives   int
	m       *runmachine.Machine
	now     time.Time
	wait    *runmachine.Command
	spec    runspec.Spec
	ends    []runmachine.GroupEnded // not delivered yet
	plays   map[rollout.GroupSeq]bool
	saved   redistest.Image
	nonce   int
	ledger  ledger
	log     []string
}

// ledger is what trainers were told.
type ledger struct {
	generation rollout.TrainerGeneration // of the trainer announced last
	given      map[rollout.TrainerGeneration]bool
	told       int // how often a trainer was told something new
	saved      int // told when Redis was saved
	batches    map[rollout.Step]string
	owner      map[string]rollout.Step // of a trajectory, by its id and reward
	spent      map[string]rollout.Step // the same, of what trainers were given who do not count any more
	completed  map[rollout.Step]bool
	recordedBy map[rollout.Step]map[rollout.TrainerGeneration]bool // since a trainer went back behind it last
	next       rollout.Step
	mayDiffer  map[rollout.Step]bool // lost, and the trainer went back behind it
	lost       map[rollout.Step]bool
}

func newRollbacks(t *testing.T, rng *rand.Rand) *rollbacks {
	t.Helper()
	s := spec(1+rng.IntN(2), 2+rng.IntN(11))
	s.Buffer.OnStale = onStale[rng.IntN(3)]
	s.Buffer.MaxStaleness = 100
	w := &rollbacks{rng: rng, spec: s, now: start, plays: map[rollout.GroupSeq]bool{},
		ledger: ledger{batches: map[rollout.Step]string{}, owner: map[string]rollout.Step{},
			given: map[rollout.TrainerGeneration]bool{}, spent: map[string]rollout.Step{},
			completed: map[rollout.Step]bool{}, recordedBy: map[rollout.Step]map[rollout.TrainerGeneration]bool{},
			mayDiffer: map[rollout.Step]bool{}, lost: map[rollout.Step]bool{}}}
	w.master = w.newMaster(t)
	w.ok(w.Open(w.ctx, s))
	w.m = runmachine.New(runmachine.NewRun(s, w.now))
	w.event(runmachine.Began{New: true})
	w.saved = redistest.ImageOf(w.t, w.rdb)
	return w
}

// master is a master of Redis, and a process that goes by it.
type master struct {
	*fixture
	life int // its replication id
}

// newMaster is an empty one.
func (w *rollbacks) newMaster(t testing.TB) *master {
	t.Helper()
	m := miniredis.RunT(t)
	f := &master{fixture: &fixture{t: t, ctx: context.Background(), rdb: redistest.Client(t, m.Addr(), 0)}}
	m.Server().SetPreHook(func(c *embedserver.Peer, cmd string, args ...string) bool {
		if cmd != "INFO" || len(args) != 1 || args[0] != "replication" {
			return false
		}
		c.WriteBulk(fmt.Sprintf("# Replication\r\nmaster_replid:%040x\r\n", f.life))
		return true
	})
	w.restart(f)
	w.process(f)
	return f
}

// restart gives a master another replication id.
func (w *rollbacks) restart(m *master) {
	w.lives++
	m.life = w.lives
}

// process has another process go by a master, which knows nothing yet.
func (w *rollbacks) process(m *master) {
	c := &clock{at: w.now}
	m.Store = buffer.New(m.rdb, buffer.Options{Now: c.Now})
}

// server is who serves the trainers, but for those who are left behind.
func (w *rollbacks) server() *master {
	if w.left != nil {
		return w.master
	}
	return w.oldest()
}

// oldest is the master that was cut off, where there is one.
func (w *rollbacks) oldest() *master {
	if w.cutOff != nil {
		return w.cutOff
	}
	return w.master
}

func (w *rollbacks) move() {
	if w.left != nil && w.rng.IntN(2) == 0 {
		w.goOnBehind()
	}
	switch w.rng.IntN(18) {
	case 0, 1, 2, 3:
		w.commit()
	case 4, 5, 6:
		w.deliver()
	case 7, 8, 9:
		w.claim(w.ledger.generation, w.ledger.next+rollout.Step(w.rng.IntN(2)))
	case 10:
		w.complete(w.ledger.generation, w.ledger.next)
	case 11:
		w.attach(w.rng.IntN(2) == 0)
	case 12:
		if w.rng.IntN(2) == 0 { // a version is published, and the run knows
			w.m.Version++
			w.ok(w.SetVersion(w.ctx, run, w.m.Version, 0))
			w.note("version %d", w.m.Version)
		}
		w.note("pass")
		w.pass(16 * time.Second)
	case 13:
		w.zombie()
	case 14:
		w.save()
	case 15:
		w.goBack()
	case 16:
		w.leaveBehind()
	default:
		w.split()
	}
	if w.rng.IntN(4) == 0 { // a trainer that was replaced does not know it
		old := w.ledger.generation - 1 - rollout.TrainerGeneration(w.rng.IntN(2))
		w.claim(max(0, old), max(0, w.ledger.next-rollout.Step(w.rng.IntN(2))))
		w.complete(max(0, old), w.ledger.next)
	}
}

// save has Redis remember what it will come back with: what it holds, or, rarely, nothing at all.
func (w *rollbacks) save() {
	if w.cutOff != nil {
		return
	}
	if w.rng.IntN(5) == 0 {
		w.note("save nothing")
		w.saved, w.ledger.saved = nil, 0
		return
	}
	w.note("save")
	w.saved, w.ledger.saved = redistest.ImageOf(w.t, w.rdb), w.ledger.told
}

func (w *rollbacks) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// goBack puts Redis back: as a restart does, or in place, which only processes that knew more can notice.
func (w *rollbacks) goBack() {
	if w.cutOff != nil {
		return
	}
	restart := w.rng.IntN(3) > 0
	w.note("back, restart %t", restart)
	w.saved.Restore(w.t, w.rdb)
	if restart {
		w.restart(w.master)
		if w.rng.IntN(2) == 0 { // and the server that knew it with it
			w.process(w.master)
		}
	}
	before := w.m.Rollbacks
	undone := w.ledger.told > w.ledger.saved
	if w.rng.IntN(2) == 0 {
		w.startAgain() // a call comes first
		w.claim(w.ledger.generation, w.ledger.next)
		w.complete(w.ledger.generation, w.ledger.next)
		w.claim(max(0, w.ledger.generation-1), w.ledger.next)
	}
	w.event(runmachine.BufferChanged{})
	w.pass(2 * time.Second)
	if undone && w.m.Rollbacks == before {
		w.t.Error("Redis came back older, and nobody noticed")
	}
}

// startAgain starts the run once more, as operators' scripts do, and a trainer with it. Redis may not know the run.
func (w *rollbacks) startAgain() {
	w.note("start again")
	w.ok(w.Reopen(w.ctx, w.spec))
	w.attach(false)
}

// witnessed tells the run what a trainer is about to be told, as the API does.
func (w *rollbacks) witnessed() { w.witnessedBy(w.server()) }

func (w *rollbacks) witnessedBy(server *master) {
	if mark, ok := server.Unwitnessed(run); ok {
		w.m.Handle(w.now, runmachine.BufferChanged{Mark: mark})
		w.ok(server.Witnessed(w.ctx, run, mark))
	}
}

// waits reports whether a call was refused until the run has compared the account, and has it do so.
func (w *rollbacks) waits(err error) bool {
	if !buffer.Unconfirmed(err) {
		return false
	}
	w.witnessed()
	if w.rng.IntN(2) == 0 {
		w.event(runmachine.BufferChanged{})
	}
	return true
}

func (w *rollbacks) attach(back bool) {
	var from *rollout.Step
	if back {
		step := max(0, w.ledger.next-rollout.Step(w.rng.IntN(2)))
		from = &step
	}
	w.attachFrom(from)
}

func (w *rollbacks) attachFrom(from *rollout.Step) {
	generation, next, err := w.server().Attach(w.ctx, run, from)
	if from != nil {
		w.note("attach from %d: %d %d %v", *from, generation, next, err)
	} else {
		w.note("attach: %d %d %v", generation, next, err)
	}
	if err != nil {
		w.waits(err)
		return
	}
	w.witnessed()
	l := &w.ledger
	if generation <= l.generation || l.given[generation] {
		w.t.Errorf("generation %d is given after %d and %v", generation, l.generation, l.given)
	}
	l.given[generation] = true
	l.generation, l.told = generation, l.told+1
	if from == nil && next != l.next {
		w.t.Errorf("step %d is to be done next, and %d was", next, l.next)
	}
	l.next = next
	for step := range l.completed {
		if step >= next {
			delete(l.completed, step)
			delete(l.recordedBy, step)
		}
	}
	for step := range l.lost {
		if from != nil && step >= *from {
			l.mayDiffer[step] = true
		}
	}
}

func (w *rollbacks) claim(generation rollout.TrainerGeneration, step rollout.Step) {
	granted := w.granted()
	b, err := w.server().Claim(w.ctx, run, step, generation, buffer.Share{})
	w.note("claim %d by %d: %v", step, generation, err)
	l := &w.ledger
	if err != nil {
		w.waits(err)
		return
	}
	w.witnessed()
	if generation != l.generation {
		w.t.Errorf("the trainer of generation %d is served, though %d was announced", generation, l.generation)
	}
	text, before := asJSON(w.t, b), l.batches[step]
	switch {
	case before == text:
		return
	case before != "" && !l.mayDiffer[step]:
		w.t.Errorf("step %d was granted, and is again with another batch (%d steps were granted)", step, granted)
	}
	delete(l.mayDiffer, step)
	delete(l.lost, step)
	l.batches[step], l.told = text, l.told+1
	for _, id := range trajectoriesOf(b) {
		if owner, taken := l.owner[id]; taken {
			w.t.Errorf("trajectory %s is in steps %d and %d", id, owner, step)
		}
		if owner, spent := l.spent[id]; spent && owner != step {
			w.t.Errorf("trajectory %s is in step %d, and another trainer was given it in step %d", id, step, owner)
		}
		l.owner[id] = step
	}
}

func (w *rollbacks) complete(generation rollout.TrainerGeneration, step rollout.Step) {
	if w.ledger.batches[step] == "" || w.ledger.mayDiffer[step] {
		return // it has no batch
	}
	_, fresh, err := w.server().Complete(w.ctx, run, step, generation, report(int(step)), steprecord.FleetView{})
	w.note("complete %d by %d: %v", step, generation, err)
	if err != nil {
		w.waits(err)
		return
	}
	w.witnessed()
	l := &w.ledger
	if generation != l.generation {
		w.t.Errorf("generation %d completes a step, though %d was announced", generation, l.generation)
	}
	if l.recordedBy[step] == nil {
		l.recordedBy[step] = map[rollout.TrainerGeneration]bool{}
	}
	l.recordedBy[step][generation] = true
	if fresh {
		l.completed[step], l.next, l.told = true, step+1, l.told+1
	}
}

// granted is how many steps Redis knows to be granted.
func (w *rollbacks) granted() rollout.Step {
	a, err := w.server().Account(w.ctx, run)
	if rollout.Refused(err, rollout.NoSuchRun) {
		return 0
	}
	w.ok(err)
	return a.ClaimedTo
}

func (w *rollbacks) account() buffer.Account {
	a, err := w.Account(w.ctx, run)
	w.ok(err)
	return a
}

// commit has the workflow of some group in play end it.
func (w *rollbacks) commit() {
	seqs := slices.Sorted(maps.Keys(w.plays))
	if len(seqs) == 0 {
		return
	}
	seq := seqs[w.rng.IntN(len(seqs))]
	c, err := w.commitAs(seq)
	w.note("commit %d: %+v %v", seq, c, err)
	if err != nil {
		w.waits(err)
		return
	}
	delete(w.plays, seq)
	w.ends = append(w.ends, runmachine.GroupEnded{Seq: seq, Code: c.Dropped})
}

// commitAs commits a group whose games went as no others do.
func (w *rollbacks) commitAs(seq rollout.GroupSeq) (buffer.Commit, error) {
	w.nonce++
	g := group(int(seq), 0)
	for i := range g.Trajectories {
		g.Trajectories[i].Reward = float64(w.nonce) + float64(i)/16
	}
	if w.rng.IntN(3) == 0 {
		return w.oldest().CommitGroup(w.ctx, g) // a worker that has not heard of the next master, either
	}
	return w.CommitGroup(w.ctx, g)
}

// zombie is an attempt at a commit that was taken for dead: its group has ended long ago.
func (w *rollbacks) zombie() {
	if w.m.NextSeq == 0 {
		return
	}
	seq := rollout.GroupSeq(w.rng.Int64N(int64(w.m.NextSeq)))
	if w.plays[seq] {
		return
	}
	c, err := w.commitAs(seq)
	w.note("late commit %d: %+v %v", seq, c, err)
	w.waits(err)
}

// deliver tells the run of the end of a group.
func (w *rollbacks) deliver() {
	if len(w.ends) == 0 {
		return
	}
	i := w.rng.IntN(len(w.ends))
	end := w.ends[i]
	w.ends = slices.Delete(w.ends, i, i+1)
	w.note("end of %d", end.Seq)
	w.event(end)
	w.event(runmachine.GroupClosed{Seq: end.Seq})
}

// finish lets the run come to its end, with a trainer that does what refusals say.
func (w *rollbacks) finish() {
	if w.cutOff != nil {
		w.heal()
	}
	w.attachFrom(nil)
	for range 400 {
		if w.m.State.Over() || w.t.Failed() {
			w.records()
			return
		}
		for range 4 {
			w.commit()
		}
		for len(w.ends) > 0 {
			w.deliver()
		}
		_, err := w.server().Claim(w.ctx, run, w.ledger.next, w.ledger.generation, buffer.Share{})
		switch {
		case rollout.Refused(err, rollout.BatchLost):
			step := w.ledger.next
			w.ledger.lost[step] = true
			w.attachFrom(&step)
		case rollout.Refused(err, rollout.Fenced):
			w.attachFrom(nil)
		}
		w.claim(w.ledger.generation, w.ledger.next)
		w.complete(w.ledger.generation, w.ledger.next)
		w.event(runmachine.BufferChanged{})
		w.pass(16 * time.Second)
	}
	w.t.Errorf("the run does not come to its end: %s at step %d, %+v", w.m.State, w.ledger.next, w.account())
}

// records looks whose records are kept: those of trainers that somebody went back behind are not.
func (w *rollbacks) records() {
	records, err := w.AllSteps(w.ctx, run, 0, 0)
	w.ok(err)
	for _, r := range records {
		if by := w.ledger.recordedBy[r.Step]; r.Done && !r.LostRecord && !by[r.Generation] {
			w.t.Errorf("step %d has the record of generation %d, and was recorded by %v", r.Step, r.Generation, by)
		}
	}
}
