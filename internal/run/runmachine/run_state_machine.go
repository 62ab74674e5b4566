// Package runmachine decides what a run does about its groups, its policy versions and its end. It takes events and
// returns commands; the run's workflow performs them.
// Start reading at Machine.Handle; testdata/scripts is the specification.
package runmachine

import (
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Machine is one execution of a run: the run's state, which is carried from one execution to the next, and the state of
// this execution. It has no goroutines, locks or clock; one owner calls it.
type Machine struct {
	*Run

	now   time.Time
	began bool
	out   []Command
	// asked holds, by command, how the machine goes on with the answer.
	asked   map[CommandID]func(Result)
	lastID  CommandID
	blocked map[CommandID]func() bool // Await commands, and whether they are still held back

	needsSync bool      // the buffer may have changed since its account was last read
	retrySync bool      // it could not be confirmed or repaired; who waits for it is not to wait long
	untold    bool      // readers should be given the new status
	told      time.Time // when they were, the last time
	launching bool      // a launch goes on in the next round
	finishing bool
	waits     time.Duration // of the Wait under way
	idle      bool          // nothing happened during the latest Wait: a difference now was not reported
	throttled runstatus.Throttle
	// varianceChanged is set when rewards have ceased to differ, or differ again, and readers do not know yet.
	varianceChanged bool

	queued       []rollout.GroupSeq    // by the latest account, oldest first
	mayBeSurplus bool                  // a change may have left more groups outstanding than there is room for
	staleAt      rollout.PolicyVersion // the newest version when groups too stale for it were last dropped

	rounds   rounds
	watched  map[rollout.GroupSeq]bool // groups in play whose end this execution hears
	suspects bool                      // a watched group ended and the run was not told

	publishing map[rollout.PolicyVersion]*publication // under way
	heard      map[string]bool                        // ids of changes and publications
}

// New is the machine of an execution that takes over run.
func New(run *Run) *Machine {
	return &Machine{
		Run: run, needsSync: true, untold: run.Change != "", mayBeSurplus: run.Change != "",
		asked: map[CommandID]func(Result){}, blocked: map[CommandID]func() bool{},
		watched: map[rollout.GroupSeq]bool{}, publishing: map[rollout.PolicyVersion]*publication{},
		heard: map[string]bool{},
	}
}

// Handle applies one event at time now, and returns what must be done about it. Every command is answered once, by
// Answered or Interrupted; the answer brings the next command of the same kind of work, so that the run's own commands
// come one after another, and those of each publication do, too. An event that is repeated changes nothing.
func (m *Machine) Handle(now time.Time, ev Event) []Command {
	m.now, m.out = now, nil
	switch ev := ev.(type) {
	case Began:
		m.begin(ev)
	case GroupEnded:
		m.groupEnded(ev)
	case GroupClosed:
		m.groupClosed(ev)
	case BufferChanged:
		m.learn(ev.Mark)
		m.needsSync = true
	case Changed:
		m.change(ev)
	case LoadProbeAsked:
		m.probeLoad(ev)
	case StopAsked:
		m.stop(ev.Reason)
	case PublishAsked:
		m.publish(ev)
	case Answered:
		then := m.asked[ev.ID]
		delete(m.asked, ev.ID)
		delete(m.blocked, ev.ID)
		if then != nil {
			then(ev.Result)
		}
	case Interrupted:
		m.interrupted(ev.ID)
	}
	return m.out
}

// Awake reports whether a Wait is to end now.
func (m *Machine) Awake() bool {
	return m.needsSync || m.untold || m.suspects || m.State.Over()
}

// Finishing reports whether the run is over and cleans up, which its cancellation must not hinder.
func (m *Machine) Finishing() bool { return m.finishing }

// ask gives out a task; then is called with its result.
func ask[R Result](m *Machine, task Task, then func(R)) CommandID {
	m.lastID++
	m.asked[m.lastID] = func(r Result) { then(r.(R)) }
	m.out = append(m.out, Command{ID: m.lastID, Task: task})
	return m.lastID
}

// do gives out a task whose result makes no difference.
func (m *Machine) do(task Task, then func()) {
	ask(m, task, func(Done) { then() })
}

// step is a part of what the run does; it calls next when it is done.
type step func(next func())

// inOrder takes steps one after another.
func inOrder(last func(), steps ...step) {
	if len(steps) == 0 {
		last()
		return
	}
	steps[0](func() { inOrder(last, steps[1:]...) })
}

// each takes one step for each item.
func each[T any](items []T, do func(item T, next func()), last func()) {
	if len(items) == 0 {
		last()
		return
	}
	do(items[0], func() { each(items[1:], do, last) })
}

// begin opens a run that is new, and announces one that was lost.
func (m *Machine) begin(ev Began) {
	if m.began {
		return
	}
	m.began = true
	if m.Looked.IsZero() {
		m.Looked = m.now
	}
	switch {
	case ev.New:
		m.untold = true
		m.open(OpenRun{}, func() { each(m.Spec.FixedAdapters(), m.pin, m.iterate) })
	case ev.Resumed:
		m.untold = true
		m.open(AnnounceResumed{Status: m.Status(), Key: m.changeKey()}, m.iterate)
	default:
		m.iterate()
	}
}

// open makes the run known to the service. When that fails the run does nothing.
func (m *Machine) open(task Task, next func()) {
	ask(m, task, func(r Done) {
		if !r.Failed {
			next()
		}
	})
}

// pin brings a fixed policy on the engines. One that engines refuse ends the run.
func (m *Machine) pin(p runspec.FixedPolicy, next func()) {
	ask(m, Pin{Policy: p}, func(r Pinned) {
		switch {
		case r.Refused != "":
			m.end(runstatus.RunFailed, "policy "+p.Name+": "+r.Refused)
			m.iterate()
		case r.Failed != "":
			m.end(runstatus.RunStopped, "a fixed policy cannot be used: "+r.Failed)
			m.iterate()
		default:
			next()
		}
	})
}

// iterate brings the account up to date, launches what is missing, tells readers and waits for something to happen.
func (m *Machine) iterate() {
	if m.State.Over() {
		m.finish()
		return
	}
	inOrder(m.iterate, m.sync, m.complete, m.overLoadProbe, m.dropSurplus, m.dropStale, m.replaceVanished,
		m.launchMissing, m.retireUnused, m.mirror, m.wait)
}

// complete ends the run when its last step is completed.
func (m *Machine) complete(next func()) {
	if m.Completed < m.Spec.Steps {
		next()
		return
	}
	m.end(runstatus.RunCompleted, m.Reason)
	m.iterate()
}

// syncEvery bounds how long a lost notification can go unnoticed.
const syncEvery = 15 * time.Second

// retrySyncAfter is how soon a run tries again to confirm or repair the buffer's account.
const retrySyncAfter = time.Second

// wait waits until something happens, more may be launched, or the account should be compared again.
func (m *Machine) wait(next func()) {
	if len(m.Playing) == 0 {
		m.suspects = false // who was suspected is accounted for
	}
	_, m.waits = m.launchable()
	if m.retrySync {
		m.waits = min(m.waits, retrySyncAfter)
	}
	ask(m, Wait{For: m.waits}, func(w Woken) {
		m.idle = w.TimedOut && m.waits == syncEvery
		m.needsSync = m.needsSync || m.idle || m.retrySync
		m.retrySync = false
		next()
	})
}

// mirror gives readers the status, when it has changed.
func (m *Machine) mirror(next func()) {
	if !m.untold {
		next()
		return
	}
	m.Mirrors++
	task := Mirror{Status: m.Status(), Number: m.Mirrors, Change: m.Change, Key: m.changeKey(),
		VarianceChanged: m.varianceChanged}
	m.untold, m.Change, m.varianceChanged, m.throttled, m.told = false, "", false, m.throttle(), m.now
	m.do(task, next)
}

// note keeps a change until readers are told.
func (m *Machine) note(change string) {
	m.untold = true
	m.Change = strings.Trim(m.Change+"; "+change, "; ")
}

// change makes an operator's change. What it makes too many or too stale shows in a fresh account.
func (m *Machine) change(ev Changed) {
	if m.State.Over() || m.repeated(ev.ID) {
		return
	}
	m.Spec = ev.Spec
	m.Failing = 0 // what was changed may have been at fault
	if ev.Paused != nil {
		m.State, m.Reason = runstatus.RunRunning, ""
		if *ev.Paused {
			m.State, m.Reason = runstatus.RunPaused, "paused by an operator"
		}
	}
	m.Changes++
	m.note(ev.Text)
	m.needsSync, m.mayBeSurplus, m.staleAt = true, true, 0
}

// repeated reports whether a caller's wish was heard before.
func (m *Machine) repeated(id string) bool {
	was := m.heard[id]
	m.heard[id] = true
	return was
}

// stop ends the run, which finishes when the work under way is answered. A run that is over stays as it is.
func (m *Machine) stop(reason string) {
	if m.State.Over() {
		return
	}
	m.end(runstatus.RunStopped, reason)
	m.note("stop")
}

// interrupted ends a run whose workflow was cancelled by Temporal's own tools. A publication that waits is refused.
func (m *Machine) interrupted(id CommandID) {
	if m.asked[id] == nil {
		return
	}
	delete(m.asked, id)
	if m.blocked[id] != nil {
		delete(m.blocked, id)
		m.answer(runstatus.Policy{}, rollout.Refuse(rollout.RunOver,
			"run %s is being cancelled; it takes no more versions", m.Spec.Name))
		return
	}
	m.end(runstatus.RunStopped, "cancelled through Temporal")
	m.finish()
}

func (m *Machine) end(state runstatus.RunState, reason string) {
	if m.LoadProbe != nil {
		m.endLoadProbe("the run is over")
	}
	m.State, m.Reason, m.EndedAt = state, reason, m.now
}

// finish cancels what is in play and retires every version. Readers see the end first: thousands of games may have to
// be cancelled.
func (m *Machine) finish() {
	m.finishing = true
	inOrder(func() {}, m.mirrorEnd, m.cancelAll, m.retireAll, m.mirrorAgain)
}

func (m *Machine) mirrorEnd(next func()) {
	m.untold, m.Change = true, string(m.State)
	m.mirror(next)
}

func (m *Machine) mirrorAgain(next func()) {
	m.untold = true
	m.mirror(next)
}

func (m *Machine) cancelAll(next func()) { m.cancel(seqsOf(m.Playing), next) }

// cancel cancels the games of groups.
func (m *Machine) cancel(seqs []rollout.GroupSeq, next func()) {
	if len(seqs) == 0 {
		next()
		return
	}
	m.do(CancelGames{Seqs: seqs}, next)
}

// groupEnded takes a group out of play.
func (m *Machine) groupEnded(ev GroupEnded) {
	m.learnVariance(ev)
	m.learnResult(ev.Seq, ev.Score)
	m.leave(ev.Seq, ev.Code)
	m.needsSync = true
	m.untold = m.untold || ev.Code != ""
}
