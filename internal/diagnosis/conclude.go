package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/units"
)

// conclude turns what was measured into findings, the verdict and what to do next.
func (q *inquiry) conclude(r *Report) {
	for _, find := range []func(*Report) *Finding{q.starvationNow, q.trainerSlower, q.noSignal, q.staleLosses, q.coldFinding, q.starvationPast, q.forecast} {
		if f := find(r); f != nil {
			r.Findings = append(r.Findings, *f)
		}
	}
	r.Verdict = q.verdict(r)
	r.Summary = q.summary(r)
	r.Next = append(r.Next, q.next(r)...)
}

// tooFew is the number of steps below which silence proves nothing.
const tooFew = 4

func (q *inquiry) verdict(r *Report) Verdict {
	for _, v := range []Verdict{VerdictProblem, VerdictWarning, VerdictHealed} {
		if slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Verdict == v }) {
			return v
		}
	}
	if r.Steps < tooFew {
		r.Missing = append(r.Missing, fmt.Sprintf("%d more steps", tooFew-r.Steps))
		return VerdictNoAnswer
	}
	return VerdictHealthy
}

// starvationNow is the trainer waiting at present, with the regime as its cause.
func (q *inquiry) starvationNow(r *Report) *Finding {
	if !q.starving() {
		return nil
	}
	s := *q.starve
	since := q.onset(r)
	f := &Finding{Verdict: VerdictProblem, Since: &since, Cause: q.starvationCause(r)}
	mean := q.ledger.mean(q.now, (*step).wait)
	f.Text = fmt.Sprintf("The trainer waits %s of a %s step (%s)", units.Seconds(mean), units.Seconds(q.regime.StepSec), units.Percent(mean/q.regime.StepSec))
	if s.Steps == 1 {
		f.Text = fmt.Sprintf("The trainer waited %s in step %d", units.Seconds(q.waitIn(s.Since)), s.Since)
	}
	f.Text += ", " + q.because(r) + "."
	f.Evidence = append(f.Evidence, q.regime.Evidence...)
	return f
}

// waitIn is the trainer's wait in one step.
func (q *inquiry) waitIn(no rollout.Step) float64 {
	for i := range q.ledger.steps {
		if s := &q.ledger.steps[i]; s.no == no {
			return s.wait()
		}
	}
	return 0
}

// onset is the step since which the run is starved: where the step time rose if it was the wait that
// did it, else the first wait. The rise is steadier: a first wait may be a single late game.
func (q *inquiry) onset(r *Report) rollout.Step {
	if r.Rise != nil && r.Rise.First == rollout.PhaseWait {
		return max(q.starve.Since, r.Rise.At)
	}
	return q.starve.Since
}

// pressing are the causes behind a regime: when one of them is proven, it is what happened, and the
// regime only how it shows.
var pressing = []CauseName{CauseEngineLost, CauseScaleDown, CauseColdEngines, CauseLongerGames, CauseOtherWork, CauseDrops,
	CauseAdapterLoad, CauseStraggler, CauseThrottle, CauseStaleWait}

func (q *inquiry) starvationCause(r *Report) CauseName {
	for _, c := range r.Causes {
		if c.Decision == IsCause && slices.Contains(pressing, c.Name) {
			return c.Name
		}
	}
	switch q.regime.Kind {
	case CapacityBound:
		if q.regime.Resource == WorkerSlots {
			return CauseWorkers
		}
		return CauseThroughput
	case LatencyBound:
		return CauseLatency
	}
	return CauseStarvation
}

func (q *inquiry) because(r *Report) string {
	text := q.becauseOfRegime()
	for _, c := range r.Causes {
		if c.Decision == IsCause && slices.Contains(pressing, c.Name) {
			text += "; " + c.Text
		}
	}
	return text
}

func (q *inquiry) becauseOfRegime() string {
	reg := q.regime
	switch {
	case reg.Resource == WorkerSlots:
		return fmt.Sprintf("because the workers have no room for more games; the engines do (%s of their slots in use)", units.Percent(q.account.share))
	case reg.Kind == CapacityBound:
		return fmt.Sprintf("because the engines need %s for a batch that is trained on in %s", units.Seconds(reg.P.Sec), units.Seconds(reg.C.Sec))
	case reg.Kind == LatencyBound:
		return fmt.Sprintf("because a batch's games take %s, of which %s batches outstanding hide %s; the engines have room (%s of their slots in use)",
			units.Seconds(reg.R.Sec), units.Number(reg.Depth), units.Seconds(reg.Depth*reg.C.Sec), units.Percent(q.account.share))
	case reg.Kind == MixedRegime:
		return "and neither the engines' capacity nor the games' length alone explains it"
	}
	return "which is measured; why, the records cannot say yet"
}

// trainerSlower is a present shift towards slower steps that is not the wait's.
func (q *inquiry) trainerSlower(r *Report) *Finding {
	if r.Rise == nil || r.Rise.First == rollout.PhaseWait {
		return nil
	}
	s := *r.Rise
	f := &Finding{Cause: CauseTrainer, Verdict: VerdictProblem, Since: &s.At}
	switch s.First {
	case rollout.PhaseRefLogprobs:
		f.Cause = CauseRefLogprobs
	case rollout.PhaseCheckpoint:
		f.Cause = CauseCheckpoint
	}
	var grown []string
	for _, d := range s.Phases {
		if d.Share >= someOf {
			grown = append(grown, PhaseText(d.Phase)+" "+units.SignedSeconds(d.DeltaSec))
			f.Evidence = append(f.Evidence, Evidence{
				fmt.Sprintf("%s: %s before, %s after", PhaseText(d.Phase), units.Seconds(d.BeforeSec), units.Seconds(d.AfterSec)), Measured})
		}
	}
	f.Text = fmt.Sprintf("Since step %d a step takes %s longer, most of it in the trainer itself: %s.", s.At, units.Seconds(s.DeltaSec), strings.Join(grown, ", "))
	return f
}

// coldFinding is the starved steps of the time before all engines were ready.
func (q *inquiry) coldFinding(r *Report) *Finding {
	i := slices.IndexFunc(r.Causes, func(c Cause) bool { return c.Name == CauseColdEngines })
	if i < 0 || q.starving() {
		return nil
	}
	f := &Finding{Cause: CauseColdEngines, Verdict: VerdictHealed,
		Text: "Engines were not ready yet: " + r.Causes[i].Text + "."}
	for _, e := range q.in.Events {
		if e.Kind == EventEngineJoined {
			f.Evidence = append(f.Evidence, Evidence{e.Text, Measured})
		}
	}
	if q.starve != nil {
		since := q.starve.Since
		f.Since = &since
	}
	return f
}

// starvationPast is a wait that is over, without a better explanation.
func (q *inquiry) starvationPast(r *Report) *Finding {
	s := q.starve
	if s == nil || s.Until == nil || s.Share < minWaitShare || len(r.Findings) > 0 {
		return nil
	}
	return &Finding{Cause: CauseStarvation, Verdict: VerdictHealed, Since: &s.Since,
		Text: fmt.Sprintf("The trainer waited %s per step from step %d until step %d, and no longer does.", units.Seconds(s.WaitSec), s.Since, *s.Until)}
}

// forecast warns of a starvation that a prefilled buffer still hides.
func (q *inquiry) forecast(r *Report) *Finding {
	if q.starving() || !q.willStarve() || r.Replay == nil || !r.Replay.Explains || r.Replay.Onset == nil || *r.Replay.Onset <= r.To {
		return nil
	}
	from, to, _ := q.fallingDepth()
	return &Finding{Cause: CauseThroughput, Verdict: VerdictWarning, Since: r.Replay.Onset,
		Text: fmt.Sprintf("The buffer is running empty: from about step %d on a step will take %s instead of %s.",
			*r.Replay.Onset, units.Seconds(r.Replay.StepSec), units.Seconds(q.regime.StepSec)),
		Evidence: []Evidence{
			{fmt.Sprintf("batches ready at the claim fell from %.1f to %.1f", from.ready, to.ready), Measured},
			{fmt.Sprintf("the engines need %s for a batch, the trainer %s", units.Seconds(q.regime.P.Sec), units.Seconds(q.regime.C.Sec)), Measured},
		}}
}

func (q *inquiry) summary(r *Report) string {
	switch {
	case r.Verdict == VerdictProblem && q.starving():
		kind := string(q.regime.Kind)
		if q.regime.Kind == NoRegime || q.regime.Kind == MixedRegime {
			kind = "starved"
		}
		return fmt.Sprintf("%s since step %d. %s", kind, *r.Findings[0].Since, r.Findings[0].Text)
	case len(r.Findings) > 0:
		return r.Findings[0].Text
	case r.Verdict == VerdictNoAnswer:
		return fmt.Sprintf("Not enough evidence: %d of the %d steps that it takes.", r.Steps, tooFew)
	}
	return fmt.Sprintf("No problem found: a step takes %s, %s of it waiting%s.", units.Seconds(q.regime.StepSec),
		units.Percent(1-q.regime.C.Sec/q.regime.StepSec), mostly(r))
}

// mostly names a phase other than training that takes more than a third of the present steps.
func mostly(r *Report) string {
	if len(r.Levels) == 0 {
		return ""
	}
	l := r.Levels[len(r.Levels)-1]
	for _, phase := range []rollout.Phase{rollout.PhaseLoad, rollout.PhaseRefLogprobs, rollout.PhasePublish, rollout.PhaseCheckpoint, rollout.PhaseOther} {
		if share := l.PhaseSec[phase] / l.StepSec; share > 1.0/3 {
			return fmt.Sprintf(", but %s is in %s (%s)", units.Percent(share), PhaseText(phase), units.Seconds(l.PhaseSec[phase]))
		}
	}
	return ""
}

// next is the commands that do, or show, what helps most.
func (q *inquiry) next(r *Report) []string {
	name := string(q.in.Spec.Name)
	again := "millrace diagnose " + name
	switch best := bestChange(r.WhatIfs); {
	case r.Verdict == VerdictHealthy || r.Verdict == VerdictHealed:
		return nil
	case len(r.Findings) > 0 && r.Findings[0].Cause == CauseNoSignal && q.in.Spec.Environment.Kind != "diplomacy":
		return []string{"millrace run events " + name + " --kind rollout_complete", again}
	case len(r.Findings) > 0 && r.Findings[0].Cause == CauseNoSignal:
		return []string{"millrace game show " + name, again}
	case q.in.Over:
		return q.nextTime(best)
	case best.Command != "":
		return []string{best.Command, again}
	case r.has(CauseThrottle) && q.admitted() == 0:
		return []string{fmt.Sprintf("millrace run set %s buffer.max_staleness=1", name), again}
	case r.Verdict == VerdictNoAnswer || q.regime.Kind == NoRegime:
		return []string{"millrace run watch " + name, again}
	}
	return []string{"millrace run steps " + name, again}
}

// nextTime is what helps a run that is over: another one.
func (q *inquiry) nextTime(best WhatIf) []string {
	change, ok := strings.CutPrefix(best.Command, fmt.Sprintf("millrace run set %s ", q.in.Spec.Name))
	if !ok {
		return []string{"millrace run steps " + string(q.in.Spec.Name)}
	}
	return []string{"in the spec of the next run: " + change}
}

// has reports whether a candidate was found to be a cause.
func (r *Report) has(name CauseName) bool {
	return slices.ContainsFunc(r.Causes, func(c Cause) bool { return c.Name == name && c.Decision == IsCause })
}

// bestChange is the helping change with the shortest step; of those about as good, the first. One
// that needs staler games is taken only when nothing else helps.
func bestChange(changes []WhatIf) WhatIf {
	var best WhatIf
	for _, w := range changes {
		better := best.Command == "" || best.Staler && !w.Staler || best.Staler == w.Staler && w.StepSec < best.StepSec*(1-minGain)
		if w.Outcome == Helps && w.Command != "" && better {
			best = w
		}
	}
	return best
}
