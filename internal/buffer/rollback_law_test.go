package buffer_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	embedserver "github.com/alicebob/miniredis/v2/server"
	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/runmachine"
)

// FuzzRollback drives a run's own machine on an embedded Redis that is put back to what it was at any moment. Whatever
// happens: a step is never granted with another batch, unless its batch was lost and the trainer went back behind it;
// no trajectory is in two steps; only the trainer announced last is served; a completed step stays completed; every
// rollback that undid what a trainer was told is reported; and the run comes to its end.
func FuzzRollback(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 7))
		w := newRollbacks(t, rng)
		for range 150 {
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
	*fixture
	rng    *rand.Rand
	redis  *miniredis.Miniredis
	life   int // of Redis: its replication id
	m      *runmachine.Machine
	now    time.Time
	wait   *runmachine.Command
	spec   rollout.Spec
	ends   []runmachine.GroupEnded // not delivered yet
	plays  map[rollout.GroupSeq]bool
	saved  redistest.Image
	nonce  int
	ledger ledger
	log    []string
}

// ledger is what trainers were told.
type ledger struct {
	generation rollout.TrainerGeneration // of the trainer announced last
	told       int                       // how often a trainer was told something new
	saved      int                       // told when Redis was saved
	batches    map[rollout.Step]string
	owner      map[string]rollout.Step // of a trajectory, by its id and reward
	completed  map[rollout.Step]bool
	next       rollout.Step
	mayDiffer  map[rollout.Step]bool // lost, and the trainer went back behind it
	lost       map[rollout.Step]bool
}

func newRollbacks(t *testing.T, rng *rand.Rand) *rollbacks {
	t.Helper()
	m := miniredis.RunT(t)
	s := spec(1+rng.IntN(2), 12)
	s.Buffer.OnStale = onStale[rng.IntN(3)]
	s.Buffer.MaxStaleness = 100
	w := &rollbacks{rng: rng, redis: m, spec: s, now: start, plays: map[rollout.GroupSeq]bool{},
		ledger: ledger{batches: map[rollout.Step]string{}, owner: map[string]rollout.Step{},
			completed: map[rollout.Step]bool{}, mayDiffer: map[rollout.Step]bool{}, lost: map[rollout.Step]bool{}}}
	m.Server().SetPreHook(func(c *embedserver.Peer, cmd string, args ...string) bool {
		if cmd != "INFO" || len(args) != 1 || args[0] != "replication" {
			return false
		}
		c.WriteBulk(fmt.Sprintf("# Replication\r\nmaster_replid:%040x\r\n", w.life))
		return true
	})
	w.fixture = open(t, redistest.Client(t, m.Addr(), 0), s)
	w.m = runmachine.New(runmachine.NewRun(s, w.now), runmachine.AllFeatures)
	w.event(runmachine.Began{New: true})
	w.saved = redistest.ImageOf(w.t, w.rdb)
	return w
}

func (w *rollbacks) move() {
	switch w.rng.IntN(16) {
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
			w.ok(w.SetVersion(w.ctx, run, w.m.Version))
			w.note("version %d", w.m.Version)
		}
		w.note("pass")
		w.pass(16 * time.Second)
	case 13:
		w.zombie()
	case 14:
		w.save()
	default:
		w.goBack()
	}
	if w.rng.IntN(4) == 0 { // a trainer that was replaced does not know it
		old := w.ledger.generation - 1 - rollout.TrainerGeneration(w.rng.IntN(2))
		w.claim(max(0, old), max(0, w.ledger.next-rollout.Step(w.rng.IntN(2))))
		w.complete(max(0, old), w.ledger.next)
	}
}

// save has Redis remember what it will come back with: what it holds, or, rarely, nothing at all.
func (w *rollbacks) save() {
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
	restart := w.rng.IntN(3) > 0
	w.note("back, restart %t", restart)
	w.saved.Restore(w.t, w.rdb)
	if restart {
		w.life++
		if w.rng.IntN(2) == 0 { // and the server that knew it with it
			c := &clock{at: w.now}
			w.Store = buffer.New(w.rdb, buffer.Options{Now: c.Now})
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
	w.ok(w.Reopen(w.ctx, w.spec, ""))
	w.attach(false)
}

// witnessed tells the run what a trainer is about to be told, as the API does.
func (w *rollbacks) witnessed() {
	if mark, ok := w.Unwitnessed(run); ok {
		w.m.Handle(w.now, runmachine.BufferChanged{Mark: mark})
		w.ok(w.Witnessed(w.ctx, run, mark))
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
	generation, next, err := w.Attach(w.ctx, run, from)
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
	if generation <= l.generation {
		w.t.Errorf("generation %d is given after %d", generation, l.generation)
	}
	l.generation, l.told = generation, l.told+1
	if from == nil && next != l.next {
		w.t.Errorf("step %d is to be done next, and %d was", next, l.next)
	}
	l.next = next
	for step := range l.completed {
		if step >= next {
			delete(l.completed, step)
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
	b, err := w.Claim(w.ctx, run, step, generation, buffer.Share{})
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
	for _, g := range b.Groups {
		for _, trajectory := range g.Trajectories {
			id := fmt.Sprint(trajectory.ID, trajectory.Reward)
			if owner, taken := l.owner[id]; taken {
				w.t.Errorf("trajectory %s is in steps %d and %d", trajectory.ID, owner, step)
			}
			l.owner[id] = step
		}
	}
}

func (w *rollbacks) complete(generation rollout.TrainerGeneration, step rollout.Step) {
	if w.ledger.batches[step] == "" || w.ledger.mayDiffer[step] {
		return // it has no batch
	}
	_, fresh, err := w.Complete(w.ctx, run, step, generation, report(int(step)), rollout.FleetView{})
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
	if fresh {
		l.completed[step], l.next, l.told = true, step+1, l.told+1
	}
}

// granted is how many steps Redis knows to be granted.
func (w *rollbacks) granted() rollout.Step {
	a, err := w.Account(w.ctx, run)
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
	w.attachFrom(nil)
	for range 400 {
		if w.m.State.Over() || w.t.Failed() {
			return
		}
		for range 4 {
			w.commit()
		}
		for len(w.ends) > 0 {
			w.deliver()
		}
		_, err := w.Claim(w.ctx, run, w.ledger.next, w.ledger.generation, buffer.Share{})
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

// event has the run's machine handle an event, and performs what follows.
func (w *rollbacks) event(ev runmachine.Event) {
	w.perform(w.m.Handle(w.now, ev))
	w.wake()
}

func (w *rollbacks) wake() {
	for w.wait != nil && w.m.Awake() {
		cmd := *w.wait
		w.wait = nil
		w.perform(w.m.Handle(w.now, runmachine.Answered{ID: cmd.ID, Result: runmachine.Woken{}}))
	}
}

func (w *rollbacks) pass(d time.Duration) {
	end := w.now.Add(d)
	for w.wait != nil {
		after := w.wait.Task.(runmachine.Wait).For
		if w.now.Add(after).After(end) {
			break
		}
		w.now = w.now.Add(after)
		cmd := *w.wait
		w.wait = nil
		w.perform(w.m.Handle(w.now, runmachine.Answered{ID: cmd.ID, Result: runmachine.Woken{TimedOut: true}}))
		w.wake()
	}
	w.now = end
}

func (w *rollbacks) perform(commands []runmachine.Command) {
	for len(commands) > 0 {
		cmd := commands[0]
		commands = commands[1:]
		if result := w.do(cmd); result != nil {
			commands = append(commands, w.m.Handle(w.now, runmachine.Answered{ID: cmd.ID, Result: result})...)
		}
	}
}

func (w *rollbacks) do(cmd runmachine.Command) runmachine.Result {
	switch task := cmd.Task.(type) {
	case runmachine.ReadAccount:
		if _, err := w.Account(w.ctx, run); rollout.Refused(err, rollout.NoSuchRun) {
			return runmachine.AccountRead{Failed: true, Forgotten: true}
		}
		return runmachine.AccountRead{Account: w.read(task.Since)}
	case runmachine.ConfirmBuffer:
		w.note("confirm era %d", task.Era)
		confirmed, err := w.Confirm(w.ctx, run, task.Era, task.ReplicationID)
		w.ok(err)
		return runmachine.Done{Failed: !confirmed}
	case runmachine.RepairBuffer:
		w.ok(w.Reopen(w.ctx, w.spec, ""))
		if w.rng.IntN(4) == 0 {
			w.attach(false) // before it is repaired
		}
		back, err := w.Repair(w.ctx, run, buffer.Repair{Games: 2, Era: task.Era, Mark: task.Mark, NextGroup: task.NextGroup,
			Playing: task.Playing, Ready: task.Ready})
		w.ok(err)
		w.note("repair %+v of %+v", back, task.Mark)
		for _, step := range back.LostBatches {
			w.ledger.lost[step] = true
		}
		return runmachine.Repaired{Account: w.read(task.Mark.Granted), Rollback: back}
	case runmachine.Release:
		var gone []rollout.GroupSeq
		for _, seq := range task.Seqs {
			if err := w.Discard(w.ctx, rollout.GroupRef{Run: run, Seq: seq}, task.Code); err == nil {
				gone = append(gone, seq)
			}
		}
		return runmachine.Released{Seqs: gone}
	case runmachine.LookFor:
		var gone []rollout.GroupSeq
		for _, seq := range task.Seqs {
			if !w.plays[seq] && !slices.ContainsFunc(w.ends, func(e runmachine.GroupEnded) bool { return e.Seq == seq }) {
				gone = append(gone, seq)
			}
		}
		return runmachine.Looked{Gone: gone}
	case runmachine.DropVanished:
		err := w.Discard(w.ctx, rollout.GroupRef{Run: run, Seq: task.Seq}, rollout.CodeVanished)
		return runmachine.Done{Failed: err != nil}
	case runmachine.Launch:
		for _, g := range task.Groups {
			w.note("launch %d", g.Seq)
			w.plays[g.Seq] = true
			if w.rng.IntN(4) > 0 { // else its launch has not arrived yet
				w.launch(0, int(g.Seq))
			}
		}
	case runmachine.Mirror:
		w.ok(w.SaveStatus(w.ctx, task.Status, time.Time{}))
	case runmachine.Wait:
		w.wait = &cmd
		return nil
	default:
	}
	return runmachine.Done{}
}

func (w *rollbacks) read(since rollout.Step) runmachine.Account {
	a, err := w.AccountSince(w.ctx, run, since)
	w.ok(err)
	c := a.Counts
	expect(w.t, "sum of counts", c.Queued+c.InFlight+c.Ready+c.Claimed+c.Completed+c.Dropped, a.Launched)
	return runmachine.Account{
		Highest: a.Highest, Queued: a.Queued, InFlight: a.InFlight, Ready: a.Ready, Claimed: int(a.ClaimedTo),
		Completed: int(a.NextStep), Version: a.Version, Bytes: a.Counts.Bytes, GroupBytes: a.GroupBytes,
		Mark: a.Mark, Confirmed: a.Confirmed(), ReplicationID: a.ReplicationID,
	}
}
