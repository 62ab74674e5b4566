package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Diagnose reads the records of a run in four pure stages: the measurements, the limit of the step time, the
// predictions of a replay, and the causes of slow steps. The report combines them. The same input gives the same
// report.
func Diagnose(in Input) Report {
	in = in.selected()
	h := newHistory(in.Records, pausesOf(&in), in.Spec.Steps)
	if len(h.steps) == 0 {
		return withAlarms(reportOfNoStep(in, h), in.Alarms)
	}
	m := measure(in, h)
	reg := regimeOf(&m)
	p := predict(&m, &reg)
	if p.doubted { // nothing is excluded by a model that the record does not bear out
		reg.Kind, reg.Resource = UndecidedRegime, ""
	}
	causes, over := causesOf(&m, &reg, &p), slowTimeOver(&m)
	if over != nil {
		causes = append(causes, over.byCauses...)
	}
	return withAlarms(reportOf(&m, &reg, p, causes, over), in.Alarms)
}

// tooFew is the number of steps below which silence proves nothing.
const tooFew = 4

// reportOfNoStep is the report before any step is complete.
func reportOfNoStep(in Input, h history) Report {
	return Report{
		Run: in.Spec.Name, Verdict: VerdictNoAnswer, Severity: SeverityOK,
		Summary: "No step is complete yet.", Findings: []Finding{},
		Levels: []Level{}, Shifts: []Shift{}, Regime: Regime{Kind: NoRegime, Evidence: []Evidence{}},
		WhatIfs: []WhatIf{}, Causes: []Cause{}, Missing: []string{"completed steps"}, Fleet: []FleetEvent{},
		NotLookedAt: []string{}, Notes: append([]string{}, h.notes...),
		Scaling: scalingText(nil, &in, false),
		Next:    []string{"millrace run watch " + string(in.Spec.Name)},
	}
}

// reportOf is the last stage: it combines the others' results, with their meaning and the next action.
func reportOf(m *measurements, reg *regime, p predictions, causes []Cause, over *slowTime) Report {
	r := Report{
		Run: m.in.Spec.Name, Steps: len(m.steps), From: m.steps[0].no, To: m.steps[len(m.steps)-1].no,
		Prefill: m.prefill, Levels: m.levels, Shifts: m.shifts, Rise: m.rise,
		Oscillation: m.cycle, Starvation: m.starvation,
		Regime: reg.Regime, Replay: p.replay, WhatIfs: p.whatIfs, Causes: causes,
		Missing:     append(append([]string{}, reg.missing...), p.missing...),
		Notes:       slices.Concat(pauseNotes(m), m.notes, p.notes),
		NotLookedAt: append(m.in.notLookedAt(m.all[0].no), m.holes()...), Next: []string{},
	}
	r.Regime.Probe, r.Fleet = p.probe, fleetEvents(m)
	r.Scaling = scalingText(m, &m.in, reg.Kind == CapacityBound && reg.Resource != WorkerSlots)
	if n := len(m.present); n > 0 {
		r.Regime.From, r.Regime.To = m.steps[m.present[0]].no, m.steps[m.present[n-1]].no
	}
	found := findingsOf(m, reg, p, causes, over)
	recent := ledgerOf(m, found)
	whole := *recent
	if older := m.in.Older; older != nil {
		whole = merged(older.Ledger, *recent)
		r.OldShifts = older.Shifts
	}
	r.Ledger, r.Goodput = &whole, whole.Goodput()
	losses := lossesOf(recent, &whole, found, r.To)
	r.Findings = append([]Finding{}, bySeverity(found, losses, recent)...)
	r.Causes = withLosses(causes, r.Findings, lossCauses(losses, recent))
	for i := range r.Causes {
		if s := r.Causes[i].Share; s != nil && s.What == "" {
			s.What = OfJump
		}
	}
	r.Verdict = verdictOf(r.Findings, r.Steps)
	if r.Verdict == VerdictNoAnswer {
		r.Missing = append(r.Missing, units.Counted(tooFew-r.Steps, "more step"))
	}
	r.Summary = summary(r, m.starving())
	price := 0.0
	if scaled := m.in.Scaling; scaled != nil {
		price = scaled.Price
	}
	r.weigh(recent, &m.in.Spec, price)
	r.Next = append(r.Next, nextCommands(r, m, p)...)
	return r
}

// ledgerOf is where the time of the steps that are looked at went. Waits have the cause that was found for them.
func ledgerOf(m *measurements, found []Finding) *Ledger {
	t := timelineOf(&m.history, m.cycle != nil)
	for _, f := range found {
		switch {
		case f.Since == nil || m.starvation == nil || *f.Since > m.starvation.Since && !m.starving():
		case f.Verdict == VerdictProblem && m.starving(), f.Cause == CauseColdEngines:
			t.starvedBy(f.Cause, min(*f.Since, m.starvation.Since))
			return t.ledger(0, len(m.all))
		}
	}
	return t.ledger(0, len(m.all))
}

// lossesOf is the findings of the ledger: of the recent steps, or else of the whole run, which is then over.
func lossesOf(recent, whole *Ledger, found []Finding, last rollout.Step) []Finding {
	if recent.Steps < tooFew {
		return nil
	}
	losses := lossFindings(recent, found, last)
	if len(losses) == 0 && len(found) == 0 {
		losses = lossFindings(whole, found, last)
		for i := range losses {
			losses[i].Verdict = VerdictHealed
		}
	}
	return losses
}

// withLosses puts the losses among the causes: first if one of them is the first finding.
func withLosses(causes []Cause, found []Finding, losses []Cause) []Cause {
	if len(found) > 0 && slices.ContainsFunc(losses, func(c Cause) bool { return c.Name == found[0].Cause }) {
		return slices.Concat(losses, causes)
	}
	last := 0 // after those that were found to be one
	for i, c := range causes {
		if c.Decision == IsCause {
			last = i + 1
		}
	}
	return slices.Insert(slices.Clone(causes), last, losses...)
}

// verdictOf is the gravest verdict of the findings.
func verdictOf(findings []Finding, steps int) Verdict {
	for _, v := range []Verdict{VerdictProblem, VerdictWarning, VerdictHealed} {
		if slices.ContainsFunc(findings, func(f Finding) bool { return f.Verdict == v }) {
			return v
		}
	}
	if steps < tooFew {
		return VerdictNoAnswer
	}
	return VerdictHealthy
}

func summary(r Report, starving bool) string {
	switch {
	case r.Verdict == VerdictProblem && starving && r.Findings[0].starved:
		kind := string(r.Regime.Kind)
		if r.Regime.Kind == NoRegime {
			kind = "starved"
		}
		return fmt.Sprintf("%s since step %d. %s", kind, *r.Findings[0].Since, r.Findings[0].Text)
	case len(r.Findings) > 0:
		return r.Findings[0].Text
	case r.Verdict == VerdictNoAnswer:
		return fmt.Sprintf("Of the %d steps that a diagnosis takes there are %d.", tooFew, r.Steps)
	}
	return fmt.Sprintf("No problem found: a step takes %s, %s of it waiting%s. %s.", units.Seconds(r.Regime.StepSec),
		units.Percent(1-r.Regime.ComputeSec/r.Regime.StepSec), longPhase(r.Levels), usefulText(r.Ledger))
}

// longPhase names a phase other than training that takes more than a third of the present steps.
func longPhase(levels []Level) string {
	if len(levels) == 0 {
		return ""
	}
	l := levels[len(levels)-1]
	for _, phase := range []steprecord.Phase{
		steprecord.PhaseLoad, steprecord.PhaseRefLogprobs, steprecord.PhasePublish, steprecord.PhaseCheckpoint,
		steprecord.PhaseOther,
	} {
		if share := l.PhaseSec[phase] / l.StepSec; share > 1.0/3 {
			return fmt.Sprintf(", but %s is in %s (%s)",
				units.Percent(share), PhaseText(phase), units.Seconds(l.PhaseSec[phase]))
		}
	}
	return ""
}

// nextCommands lists the commands that do, or show, the most helpful actions.
func nextCommands(r Report, m *measurements, p predictions) []string {
	name := string(r.Run)
	again := "millrace diagnose " + name
	learnsNothing := len(r.Findings) > 0 && r.Findings[0].Cause == CauseNoRewardVariance
	switch best := bestChange(r.WhatIfs, r.Regime.Kind); {
	case r.Verdict == VerdictHealthy || r.Verdict == VerdictHealed:
		return nil
	case len(r.Findings) > 0 && r.Findings[0].Fix != nil && slices.ContainsFunc(r.Ledger.Losses, r.Findings[0].isLoss):
		return []string{fmt.Sprintf("millrace diagnose %s --step %d", name, *r.Findings[0].Since), again}
	case learnsNothing && m.in.Spec.Environment.Kind != "diplomacy":
		return []string{"millrace events " + name + " --kind rollout_complete", again}
	case learnsNothing:
		return []string{"millrace run game " + name, again}
	case m.in.Over:
		return nextTime(name, r.WhatIfs, r.Regime.Kind)
	case fixOfFirst(r) != "":
		return []string{fixOfFirst(r), again}
	case !capacityFixes(r):
		return []string{"millrace run steps " + name, again}
	case p.probe != nil && best.Command == "" && !m.in.Over:
		return []string{p.probe.Command, again}
	case best.Command != "":
		return []string{best.Command, again}
	case proven(r.Causes, CauseThrottle) && m.stalenessLimit() == 0:
		return []string{fmt.Sprintf("millrace run set %s buffer.max_staleness=1", name), again}
	case r.Verdict == VerdictNoAnswer || r.Regime.Kind == NoRegime:
		return []string{"millrace run watch " + name, again}
	}
	return []string{"millrace run steps " + name, again}
}

// fixOfFirst is the command that removes what the first finding is about; empty when no command does.
func fixOfFirst(r Report) string {
	if len(r.Findings) == 0 || r.Findings[0].Fix == nil {
		return ""
	}
	return r.Findings[0].Fix.Command
}

// capacityFixes reports whether engines, or another depth, are a fit answer to the first finding: not where something
// is slow that they leave as slow.
func capacityFixes(r Report) bool {
	return len(r.Findings) == 0 || r.Findings[0].Fix == nil || !slices.Contains([]CauseName{
		CauseEngineSlow, CauseHandover, CausePublish, CauseEngineBack, CauseAdapterLoad, CauseTrainer, CauseRefLogprobs,
		CauseAdapterSlots, CauseCheckpoint, CauseOwnLimit, CauseLowerPrefixHits, CauseConfig,
	}, r.Findings[0].Cause)
}

// nextTime is advice for a run that is over: another run, with other settings or more engines.
func nextTime(name string, changes []WhatIf, kind RegimeKind) []string {
	best := bestChange(changes, kind)
	if setting, ok := strings.CutPrefix(best.Command, fmt.Sprintf("millrace run set %s ", name)); ok {
		return []string{"in the spec of the next run: " + setting}
	}
	if best.Change != "" {
		return []string{"for the next run: " + best.Change}
	}
	return []string{"millrace run steps " + name}
}

// bestChange is the helping change with the shortest step; of those about as good, the first. One that needs staler
// games is taken only when nothing else helps, and so is one of depth where the fleet is the limit: it helps a
// little there.
func bestChange(changes []WhatIf, kind RegimeKind) WhatIf {
	var best WhatIf
	last := func(w WhatIf) bool { return w.Staler || w.deeper && kind == CapacityBound }
	for _, w := range changes {
		better := best.Command == "" || last(best) && !last(w) ||
			last(best) == last(w) && w.StepSec < best.StepSec*(1-minGain)
		if w.Outcome == Helps && w.Command != "" && better {
			best = w
		}
	}
	return best
}
