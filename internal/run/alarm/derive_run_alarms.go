// Package alarm says what of a run needs somebody: no worker, no engine, a model that no engine serves, no program,
// attempts that all fail, a version that serves nowhere, a trainer that says nothing. It is pure: views, diagnosis and
// events ask it the same question and give the same answer. Start reading at Of.
package alarm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/run/alarm/noworker"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// Evidence is the known state of a run and of the workers that play its games.
type Evidence struct {
	Now      time.Time
	Run      runstatus.RunStatus
	Attempts runstatus.AttemptCounts
	Workers  []enginestate.Worker // alive or not
	Engines  []enginestate.Engine
	Scaling  *supply.View // nil: the fleet is not scaled
	Trainer  runstatus.TrainerActivity

	Unplayed      int64     // games that wait for a program, while no program has any
	UnplayedSince time.Time // zero: no program was heard of
}

// alarmAfter is how many attempts must fail in the same way, with no success between them, to raise an alarm: a few,
// and more where many games are played, of which some may fail before the first has ended. A game that waits for
// somebody elsewhere reports that once, however often it tries: of few games all are enough.
func alarmAfter(run runstatus.RunStatus, code rollout.Code) int64 {
	few, games := int64(5), run.Outstanding*int64(run.Spec.Group.Samples+run.Spec.Group.Oversample)
	if code == rollout.CodeEnvironmentUnavailable || code == rollout.CodePolicyUnavailable {
		few = min(few, max(1, games))
	}
	return max(few, games/20)
}

// Of lists the alarms of a run, the one that hides the others first; it is empty for a run that is over.
func Of(e Evidence) []runstatus.Alarm {
	alarms := []runstatus.Alarm{}
	if e.Run.State.Over() {
		return alarms
	}
	for _, look := range []func(Evidence) (runstatus.Alarm, bool){
		noWorker, noEngine, modelNotServed, noProgram, gamesFail, versionUnserved, trainerSilent, stalled,
	} {
		a, raised := look(e)
		if slices.Contains(consequences, a.Code) && len(alarms) > 0 {
			continue // for want of what the alarms before it say: workers have engines join
		}
		begun := slices.MaxFunc([]time.Time{a.Since, e.Run.StartedAt}, time.Time.Compare)
		if raised && e.Now.Sub(begun) >= patience[a.Code] {
			alarms = append(alarms, a)
		}
	}
	return alarms
}

// consequences are alarms that say nothing new beside another.
var consequences = []runstatus.AlarmCode{runstatus.AlarmNoEngine, runstatus.AlarmGamesFail, runstatus.AlarmStalled}

// minStall is the least that a run must stand still; games may take minutes more than their time limit in queues.
const minStall = 10 * time.Minute

// stalled: whatever the reason is, the trainer waits, and no game has ended in twice the time that one may take.
func stalled(e Evidence) (runstatus.Alarm, bool) {
	since := slices.MaxFunc([]time.Time{e.Attempts.EndedAt, e.Trainer.First, e.Run.StartedAt}, time.Time.Compare)
	most := time.Duration(e.Run.Spec.Timeouts.Episode)
	still := e.Run.State == runstatus.RunRunning && e.Trainer.Waiting(e.Now) && e.Now.Sub(since) > max(2*most, minStall)
	return runstatus.Alarm{Code: runstatus.AlarmStalled, Since: since,
		Text: fmt.Sprintf("the trainer waits for step %d, and no game has ended for %s; one may take %v",
			e.Trainer.Step, noworker.Span(e.Now.Sub(since)), most),
		Advice: fmt.Sprintf("see what it waits for: millrace run show %s; then the workers' logs and their Temporal",
			e.Run.Spec.Name.Plain())}, still
}

func noWorker(e Evidence) (runstatus.Alarm, bool) { return noworker.Alarm(e.Now, e.Workers) }

// noBoughtEngine is the alarm that a scaled fleet has no ready engine. It has no text while engines start or are about
// to: that is a cold start, which the trainer's waits name. With provider advise, where people add the engines, the
// usual alarm is raised.
func noBoughtEngine(e Evidence) (a runstatus.Alarm, is bool) {
	v := e.Scaling
	ready := func(of enginestate.Engine) bool { return of.State == enginestate.EngineReady }
	switch {
	case v.Awaits(e.Engines):
		return a, true
	case v == nil || v.Provider == "advise" || slices.ContainsFunc(e.Engines, ready):
		return a, false
	case v.Trouble == "":
		return a, false // engines that serve no run: their own states say why
	}
	return runstatus.Alarm{Code: runstatus.AlarmNoEngine, Since: v.TroubleSince,
		Text:   fmt.Sprintf("no engine is ready, and the provider %s does not bring one: %s", v.Provider, v.Trouble),
		Advice: "see: millrace engine scaling"}, true
}

func noEngine(e Evidence) (runstatus.Alarm, bool) {
	a := runstatus.Alarm{Code: runstatus.AlarmNoEngine, Advice: "see: millrace engine list"}
	if bought, is := noBoughtEngine(e); is {
		return bought, bought.Text != ""
	}
	if len(e.Engines) == 0 {
		a.Text, a.Advice = "the fleet has no engine", "add one: millrace engine add URL"
		return a, true
	}
	states, reason := map[enginestate.EngineState]int{}, ""
	for _, engine := range e.Engines {
		if engine.State == enginestate.EngineReady {
			return a, false
		}
		states[engine.State]++
		if engine.Since.After(a.Since) {
			a.Since = engine.Since
		}
		if reason == "" && engine.Reason != "" {
			reason = fmt.Sprintf("; %s: %s", engine.ID, engine.Reason)
		}
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(states)) {
		parts = append(parts, fmt.Sprintf("%d %s", states[state], state))
	}
	a.Text = fmt.Sprintf("none of %s is ready: %s%s", units.Counted(len(e.Engines), "engine"), strings.Join(parts, ", "),
		reason)
	return a, true
}

// modelNotServed looks at engines of any state that have said what they serve: one that serves the model and is
// unavailable is not missing.
func modelNotServed(e Evidence) (runstatus.Alarm, bool) {
	var served []string
	for _, engine := range e.Engines {
		served = append(served, engine.Models...)
	}
	slices.Sort(served)
	served = slices.Compact(served)
	model := e.Run.Spec.Model
	if len(served) == 0 || slices.Contains(served, model) {
		return runstatus.Alarm{}, false
	}
	slices.SortStableFunc(served, func(a, b string) int {
		return cmp.Compare(settings.Distance(model, a), settings.Distance(model, b))
	})
	return runstatus.Alarm{
		Code: runstatus.AlarmModel,
		Text: fmt.Sprintf("model %s is served by no engine; engines serve %s", model, units.Few(served, 3)),
		Advice: "add an engine that serves it (millrace engine add URL), " +
			"or stop the run and start one with a model that is served",
	}, true
}

// noProgram: games that programs play wait, and none plays.
func noProgram(e Evidence) (runstatus.Alarm, bool) {
	heard := "no program has leased one yet"
	if !e.UnplayedSince.IsZero() {
		heard = "no program was heard of for " + noworker.Span(e.Now.Sub(e.UnplayedSince))
	}
	return runstatus.Alarm{Code: runstatus.AlarmNoProgram, Since: e.UnplayedSince,
		Text:   fmt.Sprintf("%s waiting for a program: %s", units.Counted(int(e.Unplayed), "game"), heard),
		Advice: fmt.Sprintf("start one, or see its log; it leases games at /v1/runs/%s/episodes/lease", e.Run.Spec.Name),
	}, e.Unplayed > 0 && e.Run.State == runstatus.RunRunning
}

func gamesFail(e Evidence) (runstatus.Alarm, bool) {
	worst, failing := e.Attempts.Worst()
	if !failing || worst.InRow < alarmAfter(e.Run, worst.Code) {
		return runstatus.Alarm{}, false
	}
	if bought, is := noBoughtEngine(e); is && bought.Text == "" && worst.Code == rollout.CodeUnserved {
		return runstatus.Alarm{}, false // they wait for engines that start
	}
	return runstatus.Alarm{
		Code: runstatus.AlarmGamesFail, Since: e.Attempts.FailingSince,
		Text: fmt.Sprintf("every game fails: %s %d times in a row, the first %s ago, last: %s",
			worst.Code, worst.InRow, noworker.Span(e.Now.Sub(e.Attempts.FailingSince)), worst.Last),
		Advice: advice(worst.Code, e.Run.Spec),
	}, true
}
