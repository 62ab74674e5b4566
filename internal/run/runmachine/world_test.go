package runmachine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// world is what surrounds one run: a buffer, engines and Temporal, all of which do what the machine asks, and write
// down what that was. What is held is not answered before it is let go.
type world struct {
	m       *Machine
	now     time.Time
	spec    runspec.Spec  // as the run was started with
	takes   time.Duration // what Temporal needs for a round
	wait    *Command
	waitsTo time.Time
	awaits  []Command
	holds   string // the kind of task that is not answered
	held    []Command
	fails   string // the kind of task that fails
	over    bool
	lost    bool // Redis has forgotten the run
	mark    runstatus.Mark
	version rollout.PolicyVersion
	redis   string // its replication id
	saved   older
	// under which replication id the run has confirmed the account; empty: it never did
	confirmed string
	log       []string
	mirrored  runstatus.RunStatus
	mirrors   int64  // its number
	backup    []byte // the run, as Temporal's database had it

	groups     map[rollout.GroupSeq]place
	gone       map[rollout.GroupSeq]bool // groups without a workflow
	stored     []rollout.GroupSeq        // in the order in which they became ready
	claimed    [][]rollout.GroupSeq      // by step; nil: the batch is lost
	behind     bool                      // the trainer went back behind lost batches, which are formed again
	completed  int
	bytes      int64 // of a group
	launches   map[rollout.GroupSeq]int
	versions   map[rollout.GroupSeq]rollout.PolicyVersion
	opponents  map[rollout.GroupSeq]string
	check      func(Task) // holds each task against the laws
	digest     string
	inspection *Fault
	loading    *Fault
}

// place is where the buffer has a group.
type place string

const (
	queued   place = "queued"
	inFlight place = "in flight"
	ready    place = "ready"
	claimed  place = "claimed"
	dropped  place = "dropped"
)

func newWorld(spec runspec.Spec) *world {
	w := &world{
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), spec: spec,
		groups: map[rollout.GroupSeq]place{}, gone: map[rollout.GroupSeq]bool{}, launches: map[rollout.GroupSeq]int{},
		versions:  map[rollout.GroupSeq]rollout.PolicyVersion{},
		opponents: map[rollout.GroupSeq]string{}, check: func(Task) {},
		redis: "redis", confirmed: "redis", mark: runstatus.Mark{Era: 1},
	}
	w.m = New(NewRun(spec, w.now))
	return w
}

// event lets the machine handle an event, and performs what follows until it waits.
func (w *world) event(ev Event) {
	w.perform(w.m.Handle(w.now, ev))
	w.runUntilIdle()
}

// runUntilIdle wakes the machine and publications that wait, for as long as they are to be woken.
func (w *world) runUntilIdle() {
	for {
		if i := slices.IndexFunc(w.awaits, func(c Command) bool { return !w.m.Blocked(c.ID) }); i >= 0 {
			cmd := w.awaits[i]
			w.awaits = slices.Delete(w.awaits, i, i+1)
			w.answer(cmd, Done{})
			continue
		}
		if w.wait == nil || !w.m.Awake() {
			return
		}
		w.wake(false)
	}
}

func (w *world) wake(timedOut bool) {
	cmd := *w.wait
	w.wait = nil
	w.answer(cmd, Woken{TimedOut: timedOut})
}

func (w *world) answer(cmd Command, r Result) {
	w.perform(w.m.Handle(w.now, Answered{cmd.ID, r}))
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	end := w.now.Add(d)
	for w.wait != nil && !w.waitsTo.After(end) {
		w.now = w.waitsTo
		w.wake(true)
		w.runUntilIdle()
	}
	w.now = end
}

func (w *world) perform(commands []Command) {
	for len(commands) > 0 {
		cmd := commands[0]
		commands = commands[1:]
		kind := strings.TrimPrefix(fmt.Sprintf("%T", cmd.Task), "runmachine.")
		w.say(cmd.Task)
		w.check(cmd.Task)
		if w.holds == kind {
			w.holds = ""
			w.held = append(w.held, cmd)
			continue
		}
		if r := w.do(cmd, w.fails == kind); r != nil {
			commands = append(commands, w.m.Handle(w.now, Answered{cmd.ID, r})...)
		}
	}
}

// release answers what was held.
func (w *world) release(failed bool) {
	held := w.held
	w.held = nil
	for _, cmd := range held {
		w.answer(cmd, w.do(cmd, failed))
	}
	w.runUntilIdle()
}

// do performs a task. The answer is nil where the machine waits.
func (w *world) do(cmd Command, fails bool) Result {
	switch task := cmd.Task.(type) {
	case ReadAccount:
		account := w.account(task.Since)
		if w.mirrors > task.Mirrors {
			account.Told = &w.mirrored
		}
		return AccountRead{Account: account, Forgotten: w.lost, Failed: fails || w.lost}
	case ConfirmBuffer:
		if fails || task.ReplicationID != w.redis {
			return Done{Failed: true}
		}
		w.mark.Era, w.confirmed = task.Era, w.redis
		return Done{}
	case RepairBuffer:
		if fails {
			return Repaired{Failed: true}
		}
		back := w.repair(task)
		return Repaired{Account: w.account(task.Mark.Granted), Rollback: back}
	case Release:
		return w.releaseGroups(task, fails)
	case LookFor:
		there := func(seq rollout.GroupSeq) bool { return !w.gone[seq] }
		return Looked{Failed: fails, Gone: slices.DeleteFunc(slices.Clone(task.Seqs), there)}
	case DropVanished:
		if w.groups[task.Seq] == ready || w.groups[task.Seq] == claimed {
			return Done{Failed: true}
		}
		w.groups[task.Seq] = dropped
	case Launch:
		w.now = w.now.Add(w.takes)
		for _, g := range task.Groups {
			w.launches[g.Seq]++
			w.versions[g.Seq] = g.Version
			w.opponents[g.Seq] = g.Opponent
			w.groups[g.Seq] = queued
		}
	case Mirror:
		if task.Number >= w.mirrors {
			w.mirrored, w.mirrors = task.Status, task.Number
			w.over = task.Status.State.Over()
		}
	case Wait:
		w.wait, w.waitsTo = &cmd, w.now.Add(task.For)
		return nil
	case Await:
		w.awaits = append(w.awaits, cmd)
		return nil
	case Pin:
		if fails {
			return Pinned{Refused: "use_dora is true"}
		}
		return Pinned{}
	case Inspect:
		if w.version > task.Newest {
			return Inspected{Ahead: w.version}
		}
		return Inspected{Digest: w.digest, Fault: w.inspection}
	case Load:
		return Loaded{Fault: w.loading}
	case Switch:
		w.version = max(w.version, task.Adapter.Version)
		return Switched{}
	case OpenRun, AnnounceResumed, CancelGames, Retire, StopLoading, Unload, ReportPolicy, AnswerPublication:
	}
	return Done{Failed: fails}
}

func (w *world) releaseGroups(task Release, fails bool) Released {
	var seqs []rollout.GroupSeq
	for _, seq := range task.Seqs {
		at := w.groups[seq]
		if !fails && (at == queued || at == inFlight && !task.OnlyQueued) {
			w.groups[seq] = dropped
			seqs = append(seqs, seq)
		}
	}
	return Released{Seqs: seqs, Failed: fails}
}

// older is a buffer as it was at a moment.
type older struct {
	groups    map[rollout.GroupSeq]place
	stored    []rollout.GroupSeq
	claimed   [][]rollout.GroupSeq
	completed int
	mark      runstatus.Mark
	version   rollout.PolicyVersion
	confirmed string
}

func (w *world) save() {
	w.saved = older{maps.Clone(w.groups), slices.Clone(w.stored), slices.Clone(w.claimed), w.completed, w.mark, w.version,
		w.confirmed}
}

// goBack is Redis that comes back as it was when it was saved.
func (w *world) goBack() {
	s := w.saved
	w.groups, w.stored, w.claimed = maps.Clone(s.groups), slices.Clone(s.stored), slices.Clone(s.claimed)
	w.completed, w.mark, w.version, w.confirmed = s.completed, s.mark, s.version, s.confirmed
	w.redis += "'"
}

// repair does what the buffer's script does, as far as the run sees it.
func (w *world) repair(task RepairBuffer) runstatus.Rollback {
	back := runstatus.Rollback{Era: task.Era, Granted: task.Mark.Granted, FoundGranted: rollout.Step(len(w.claimed)),
		Completed: task.Mark.Completed, FoundCompleted: rollout.Step(w.completed)}
	w.lost = false
	lose := func(seq rollout.GroupSeq) {
		if at := w.groups[seq]; at != dropped && at != claimed {
			w.groups[seq] = dropped
			back.LostGroups++
		}
	}
	for step := rollout.Step(len(w.claimed)); step < task.Mark.Granted; step++ {
		var batch []rollout.GroupSeq
		if g := task.Mark.Grant(step); g != nil {
			batch = g.Seqs
		}
		if len(batch) > 0 && !slices.ContainsFunc(batch, func(seq rollout.GroupSeq) bool { return w.groups[seq] != ready }) {
			for _, seq := range batch {
				w.groups[seq] = claimed
			}
			back.Restored++
			w.claimed = append(w.claimed, batch)
			continue
		}
		for _, seq := range batch {
			lose(seq)
		}
		back.LostBatches = append(back.LostBatches, step)
		w.claimed = append(w.claimed, nil)
	}
	back.LostRecords = max(0, int(task.Mark.Completed)-w.completed)
	w.completed = int(task.Mark.Completed)
	for seq := range task.NextGroup {
		switch at := w.groups[seq]; {
		case slices.Contains(task.Playing, seq):
		case slices.Contains(task.Ready, seq) && at == ready:
		default:
			lose(seq)
		}
	}
	w.version = max(w.version, task.Mark.Version)
	w.mark = runstatus.Mark{Era: task.Era, Serial: max(w.mark.Serial, task.Mark.Serial) + 1,
		Generation: max(w.mark.Generation, task.Mark.Generation) + 1}
	w.confirmed = w.redis
	return back
}

func (w *world) account(since rollout.Step) Account {
	a := Account{Highest: -1, Claimed: len(w.claimed), Completed: w.completed, Version: w.version,
		Mark: w.mark, Mirrors: w.mirrors, Confirmed: w.confirmed == w.redis || w.confirmed == "", ReplicationID: w.redis}
	a.Mark.Granted, a.Mark.Completed = rollout.Step(len(w.claimed)), rollout.Step(w.completed)
	for step := since; int(step) < len(w.claimed); step++ {
		if seqs := w.claimed[step]; seqs != nil {
			a.Mark.Grants = append(a.Mark.Grants, runstatus.Grant{Step: step, Seqs: seqs, Digest: fmt.Sprint(seqs)})
		}
	}
	if w.behind {
		a.Refills = len(w.lostBatches())
	}
	for seq, at := range w.groups {
		a.Highest = max(a.Highest, seq)
		switch at {
		case queued:
			a.Queued = append(a.Queued, seq)
		case inFlight:
			a.InFlight = append(a.InFlight, seq)
		case ready:
			a.Ready = append(a.Ready, seq)
		}
	}
	for _, seqs := range [][]rollout.GroupSeq{a.Queued, a.InFlight, a.Ready} {
		slices.Sort(seqs)
	}
	if len(w.stored) > 0 {
		a.GroupBytes, a.Bytes = w.bytes, w.bytes*int64(len(a.Ready))
	}
	return a
}

// commit makes a group ready, if it is still in play.
func (w *world) commit(seq rollout.GroupSeq) {
	if at := w.groups[seq]; at == queued || at == inFlight || at == "" && w.launches[seq] > 0 {
		w.groups[seq] = ready
		w.stored = append(w.stored, seq)
	}
}

// lostBatches is the steps that a trainer was granted and did not complete whose batches are lost.
func (w *world) lostBatches() (steps []int) {
	for step := w.completed; step < len(w.claimed); step++ {
		if w.claimed[step] == nil {
			steps = append(steps, step)
		}
	}
	return steps
}

// claim gives the groups that were launched first to the next step, if there are enough: one whose batch is lost comes
// first when the trainer has gone back behind it.
func (w *world) claim() bool {
	var batch []rollout.GroupSeq
	for _, seq := range w.account(0).Ready {
		if len(batch) < w.m.Spec.Buffer.GroupsPerStep {
			batch = append(batch, seq)
		}
	}
	if w.confirmed != "" && w.confirmed != w.redis {
		return false
	}
	lost := w.lostBatches()
	again := w.behind && len(lost) > 0
	if len(batch) < w.m.Spec.Buffer.GroupsPerStep || !again && len(w.claimed) >= w.m.Spec.Steps {
		return false
	}
	for _, seq := range batch {
		w.groups[seq] = claimed
	}
	if again {
		w.claimed[lost[0]] = batch
	} else {
		w.claimed = append(w.claimed, batch)
	}
	w.mark.Serial++
	return true
}

// cut goes on with the run as the next execution does.
func (w *world) cut() error {
	if err := w.backUp(); err != nil {
		return err
	}
	return w.restore()
}

// backUp keeps the run as it is, and restore has it go on as it was then.
func (w *world) backUp() (err error) {
	w.backup, err = json.Marshal(w.m.Run)
	return err
}

func (w *world) restore() error {
	run := &Run{}
	if err := json.Unmarshal(w.backup, run); err != nil {
		return err
	}
	w.resume(run, false)
	return nil
}

func (w *world) resume(run *Run, lost bool) {
	w.wait, w.awaits, w.held = nil, nil, nil
	w.m = New(run)
	w.event(Began{Resumed: lost})
}

// say writes down what the machine asks for, in the words of its users.
func (w *world) say(task Task) {
	text := ""
	switch t := task.(type) {
	case OpenRun:
		text = "open the run"
	case Pin:
		text = "pin " + t.Policy.Name
	case AnnounceResumed:
		text = "announce the run"
	case Release:
		text = fmt.Sprintf("release %s as %s", spans(t.Seqs), t.Code)
		if t.OnlyQueued {
			text += " if queued"
		}
	case CancelGames:
		text = "cancel " + spans(t.Seqs)
	case LookFor:
		text = "look for " + spans(t.Seqs)
	case DropVanished:
		text = fmt.Sprintf("drop %d as vanished", t.Seq)
	case Launch:
		text = fmt.Sprintf("launch %s with version %d", spans(seqsOf(t.Groups)), t.Groups[0].Version)
	case Retire:
		text = "retire " + t.Adapter
	case Mirror:
		text = fmt.Sprintf("tell readers: %s at step %d, %d outstanding",
			t.Status.State, t.Status.NextStep, t.Status.Outstanding)
		if t.Status.Throttle != "" {
			text += fmt.Sprintf(", throttled by %s", t.Status.Throttle)
		}
		if t.Change != "" {
			text += "; " + t.Change
		}
	case Inspect:
		text = "inspect " + t.Adapter.Name + " at " + t.Adapter.Path
	case Load:
		text = "load " + t.Adapter.Name
	case StopLoading:
		text = fmt.Sprintf("stop loading version %d", t.Version)
	case Unload:
		text = "unload " + t.Adapter
	case Switch:
		text = "switch to " + t.Adapter.Name
	case ReportPolicy:
		text = fmt.Sprintf("report version %d: %s", t.Policy.Version, t.Policy.State)
	case AnswerPublication:
		text = fmt.Sprintf("answer: version %d is %s", t.Policy.Version, t.Policy.State)
		if t.Err != nil {
			text = "refuse: " + t.Err.Error()
		}
	case RepairBuffer:
		text = fmt.Sprintf("repair the buffer: %d granted, %d completed, era %d (playing %s; ready %s)", t.Mark.Granted,
			t.Mark.Completed, t.Era, spans(t.Playing), spans(t.Ready))
	case ConfirmBuffer:
		if w.m.Mark.Era == 0 {
			return // as every run does when it begins
		}
		text = fmt.Sprintf("confirm the buffer, era %d", t.Era)
	case ReadAccount, Wait, Await:
		return
	}
	w.log = append(w.log, text)
}

// spans writes group numbers as 0-3 5.
func spans(seqs []rollout.GroupSeq) string {
	var parts []string
	for i := 0; i < len(seqs); {
		j := i
		for j+1 < len(seqs) && seqs[j+1] == seqs[j]+1 {
			j++
		}
		if part := fmt.Sprint(seqs[i]); i == j {
			parts = append(parts, part)
		} else {
			parts = append(parts, fmt.Sprintf("%s-%d", part, seqs[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, " ")
}
