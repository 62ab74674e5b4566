package buffer_test

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/run/runmachine"
	"github.com/millrace/millrace/internal/store/buffer"
)

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
		w.ok(w.Reopen(w.ctx, w.spec))
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
		w.ok(w.SaveStatus(w.ctx, task.Status, 0))
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
		Mark: a.Mark, Confirmed: a.Confirmed(), ReplicationID: a.ReplicationID, Refills: a.Refills,
	}
}
