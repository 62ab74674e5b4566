package alarm

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/run/alarm/noworker"
)

// trainerSilent: a trainer that took part in the run has ended or says nothing any more, and the run goes on without
// anybody who learns from it.
func trainerSilent(e Evidence) (runstatus.Alarm, bool) {
	t := e.Trainer
	since, silent := t.Silent(e.Now)
	if !silent || e.Run.State != runstatus.RunRunning || e.Run.Spec.Evaluation.Run != "" {
		return runstatus.Alarm{}, false
	}
	step, did := t.Step, "has not asked for"
	if t.Next < t.Step {
		step, did = t.Next, "was given"
	}
	if step >= rollout.Step(e.Run.Spec.Steps) {
		return runstatus.Alarm{}, false
	}
	usual := ""
	if t.UsualSec > 0 {
		usual = fmt.Sprintf(" (its steps take %s)", units.Seconds(t.UsualSec))
	}
	then := fmt.Sprintf("was not heard of for %s%s", noworker.Span(e.Now.Sub(since)), usual)
	if t.Ended != "" {
		then = "ended: " + t.Ended
	}
	return runstatus.Alarm{Code: runstatus.AlarmTrainerSilent, Since: since,
		Text:   fmt.Sprintf("the trainer (generation %d) %s step %d and %s", t.Generation, did, step, then),
		Advice: fmt.Sprintf("see its log and start it again: it goes on with step %d", step)}, true
}

// versionUnserved: the newest version that the trainer has published was rejected, or waits for engines although some
// are ready.
func versionUnserved(e Evidence) (runstatus.Alarm, bool) {
	var newest runstatus.Policy
	for _, p := range e.Run.Policies {
		if p.Version >= newest.Version {
			newest = p
		}
	}
	ready := func(of enginestate.Engine) bool { return of.State == enginestate.EngineReady }
	switch {
	case newest.State == runstatus.PolicyLoading && newest.Reason != "" && slices.ContainsFunc(e.Engines, ready):
		return runstatus.Alarm{Code: runstatus.AlarmVersionHeld, Since: newest.PublishedAt,
			Text: fmt.Sprintf("policy version %d does not serve yet: %s", newest.Version, newest.Reason),
			Advice: fmt.Sprintf("restart or remove the engines that it names; the trainer's next try to publish "+
				"version %d goes on, and games are played with version %d meanwhile", newest.Version, e.Run.PolicyVersion)}, true
	case newest.State != runstatus.PolicyRejected:
		return runstatus.Alarm{}, false
	}
	return runstatus.Alarm{Code: runstatus.AlarmVersionRejected, Since: newest.PublishedAt,
		Text: fmt.Sprintf("policy version %d was rejected: %s", newest.Version, newest.Reason),
		Advice: fmt.Sprintf("fix what it names and publish version %d again; games are played with version %d",
			newest.Version, e.Run.PolicyVersion)}, true
}
