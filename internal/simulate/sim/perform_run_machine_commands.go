package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/run/runmachine"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// runLine performs what the run's machine asks for, as its workflow does: what takes time is answered later.
type runLine struct {
	*pipeline
	machine *runmachine.Machine

	timer  *virtualtime.Timer // the end of the wait
	wait   *runmachine.Command
	awaits []runmachine.Command
	open   int // commands that are not answered, waits apart

	cancelling []rollout.GroupSeq // groups whose games are yet to be cancelled
}

// The events of a runLine, beside the end of a wait, which is 0: the answer to a Launch, by the command's ID, and the
// next round of cancelling.
const (
	launchAnswered uint64 = 1 << 32
	cancelRound    uint64 = 1 << 33
)

// ended reports whether the run is over and has nothing to do any more.
func (r *runLine) ended() bool {
	return r.machine.Finishing() && r.open == 0 && r.wait == nil && len(r.cancelling) == 0
}

// tell tells the machine of an event that asks for nothing at once.
func (r *runLine) tell(ev runmachine.Event) {
	_ = r.machine.Handle(r.at(r.now()), ev)
	r.wake()
}

// wake ends a wait, and publications that are held back, once what happens at this moment has happened.
func (r *runLine) wake() {
	if r.wait != nil && r.machine.Awake() || r.released() >= 0 {
		r.timer.Set(r.now())
	}
}

// released is the place of a command that is not held back any more; -1: none.
func (r *runLine) released() int {
	return slices.IndexFunc(r.awaits, func(c runmachine.Command) bool { return !r.machine.Blocked(c.ID) })
}

// Happen ends a wait, or answers a command that has taken its time.
func (r *runLine) Happen(_ time.Duration, arg uint64) {
	switch {
	case arg&cancelRound != 0:
		r.cancelNext()
	case arg&launchAnswered != 0:
		r.answer(runmachine.CommandID(arg&^launchAnswered), runmachine.Done{})
	default:
		for i := r.released(); i >= 0; i = r.released() {
			cmd := r.awaits[i]
			r.awaits = slices.Delete(r.awaits, i, i+1)
			r.answer(cmd.ID, runmachine.Done{})
		}
		if r.wait != nil {
			id := r.wait.ID
			r.wait = nil
			r.open++
			r.answer(id, runmachine.Woken{TimedOut: !r.machine.Awake()})
		}
	}
}

// handle tells the machine of an event, and performs what follows from it.
func (r *runLine) handle(ev runmachine.Event) {
	commands := r.machine.Handle(r.at(r.now()), ev)
	for len(commands) > 0 {
		cmd := commands[0]
		commands = commands[1:]
		if result := r.perform(cmd); result != nil {
			commands = append(commands, r.machine.Handle(r.at(r.now()), runmachine.Answered{ID: cmd.ID, Result: result})...)
			continue
		}
		if _, waits := cmd.Task.(runmachine.Wait); !waits {
			r.open++
		}
	}
	r.wake()
}

// answer answers a command that was not answered at once.
func (r *runLine) answer(id runmachine.CommandID, result runmachine.Result) {
	r.open--
	r.handle(runmachine.Answered{ID: id, Result: result})
}

// perform performs one command. The answer is nil where it comes later.
func (r *runLine) perform(cmd runmachine.Command) runmachine.Result {
	switch task := cmd.Task.(type) {
	case runmachine.OpenRun:
		r.note(diagnosis.EventConfig, "start")
	case runmachine.ReadAccount:
		return runmachine.AccountRead{Account: r.buffer.Account()}
	case runmachine.RepairBuffer: // nothing is behind
		return runmachine.Repaired{Account: r.buffer.Account()}
	case runmachine.Release:
		return runmachine.Released{Seqs: r.release(task)}
	case runmachine.CancelGames:
		r.cancelGames(task.Seqs)
	case runmachine.LookFor:
		return runmachine.Looked{} // no group vanishes
	case runmachine.DropVanished:
		return runmachine.Done{Failed: true}
	case runmachine.Launch:
		return r.launch(cmd.ID, task.Groups)
	case runmachine.Mirror:
		r.mirror(task)
	case runmachine.Wait:
		r.wait = &cmd
		r.timer.Set(r.now() + task.For)
		return nil
	case runmachine.Await:
		r.awaits = append(r.awaits, cmd)
		return nil
	case runmachine.Pin:
		return r.pin(cmd.ID, task.Policy)
	case runmachine.Inspect:
		return runmachine.Inspected{}
	case runmachine.Load:
		return r.load(cmd.ID, task.Adapter.Name)
	case runmachine.Switch:
		r.switchTo(task.Adapter)
		return runmachine.Switched{}
	case runmachine.Retire:
		r.unload(task.Adapter)
	case runmachine.Unload:
		r.unload(task.Adapter)
	case runmachine.AnswerPublication:
		r.trainer.published(task)
	case runmachine.StopLoading:
		r.stopLoading(task.Version.Adapter(r.setup.Name))
	case runmachine.AnnounceResumed, runmachine.ReportPolicy, runmachine.ConfirmBuffer, runmachine.AssertAdapters:
	default:
		r.fail(fmt.Errorf("a simulated run cannot perform %T", task))
	}
	return runmachine.Done{}
}

// launch starts groups. Like Temporal it answers when it has them, which takes as long as it takes a group to begin.
func (r *runLine) launch(id runmachine.CommandID, groups []runmachine.Group) runmachine.Result {
	takes := r.setup.Overheads.Launch.Std()
	for _, g := range groups {
		r.startGroup(g, takes)
	}
	if takes <= 0 {
		return runmachine.Done{}
	}
	r.agenda.At(r.now()+takes, classRun, r, launchAnswered|uint64(id))
	return nil
}

// release takes groups out of the buffer, as far as it can let go of them.
func (r *runLine) release(task runmachine.Release) []rollout.GroupSeq {
	var released []rollout.GroupSeq
	for _, seq := range task.Seqs {
		gone := false
		if task.OnlyQueued {
			gone = r.buffer.Release(seq, task.Code)
		} else {
			gone = r.buffer.Discard(seq, task.Code, r.groups[seq].length())
		}
		if gone {
			released = append(released, seq)
		}
	}
	return released
}

// cancelGames cancels the games of groups, round by round.
func (r *runLine) cancelGames(seqs []rollout.GroupSeq) {
	under := len(r.cancelling) > 0
	r.cancelling = append(r.cancelling, seqs...)
	if !under {
		r.cancelNext()
	}
}

func (r *runLine) cancelNext() {
	n := r.machine.CancelRound(len(r.cancelling))
	round := r.cancelling[:n]
	r.cancelling = r.cancelling[n:]
	for _, seq := range round {
		if g := r.groups[seq]; g != nil {
			g.cancel()
		}
	}
	r.machine.CancelledRound(0, n)
	if len(r.cancelling) > 0 {
		r.agenda.At(r.now()+runmachine.RoundEvery, classRun, r, cancelRound)
	}
}

// mirror keeps the run's status, and notes what readers are told.
func (r *runLine) mirror(task runmachine.Mirror) {
	r.status = task.Status
	if task.Change != "" {
		r.note(diagnosis.KindOfChange(task.Change), task.Change)
	}
	if task.VarianceChanged {
		r.input.RewardVarianceChanges = append(r.input.RewardVarianceChanges,
			diagnosis.RewardVarianceChange{At: r.at(r.now()), RewardVariance: task.Status.RewardVariance})
	}
	if task.Status.State.Over() {
		r.buffer.End()
	}
}

// switchTo has new games use a version.
func (r *runLine) switchTo(a runmachine.Adapter) {
	r.wanted = append(r.wanted, a.Name)
	r.newest = max(r.newest, a.Version)
	r.buffer.SetVersion(a.Version)
	for _, e := range r.engines { // those that were not asked, or were too late, get it from the keeper
		if e.state == engineReady {
			e.load(a.Name, nil)
		}
	}
	r.trainer.look()
}

// unload lets engines unload an adapter.
func (r *runLine) unload(adapter string) {
	r.wanted = slices.DeleteFunc(r.wanted, func(w string) bool { return w == adapter })
	for _, e := range r.engines {
		e.drop(adapter)
	}
}
