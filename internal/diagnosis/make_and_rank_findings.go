package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// findingsOf lists the run's problems, the gravest first.
func findingsOf(m *measurements, reg *regime, p predictions, causes []Cause, over *slowTime) []Finding {
	found := []Finding{}
	for _, f := range []*Finding{
		slowerNow(m, reg, causes), noVariance(m), p.staleLosses(m, reg), slowerBefore(m, over, causes),
	} {
		if f != nil && !slices.ContainsFunc(found, func(other Finding) bool { return other.Cause == f.Cause }) {
			found = append(found, *f)
		}
	}
	if f := p.starvedSoon(m, reg); f != nil {
		found = append(found, *f)
	}
	return found
}

// slowerNow is the finding that steps are slower than they could be: the trainer waits, or does more itself. The first
// cause decides which is named first.
func slowerNow(m *measurements, reg *regime, causes []Cause) *Finding {
	waits, works := starvedNow(m, reg, causes), trainerSlower(m, causes)
	first := firstRoot(causes)
	switch {
	case works != nil && (waits == nil || first == nil || ofTrainer(first.Name)):
		return works
	case waits != nil:
		return waits
	}
	return works
}

// ofTrainer reports whether a cause is the trainer's own time.
func ofTrainer(name CauseName) bool {
	return slices.Contains([]CauseName{
		CauseTrainer, CauseRefLogprobs, CauseCheckpoint, CausePublish,
	}, name)
}

// firstRoot is the cause that explains most, if any is more than a term of the step time.
func firstRoot(causes []Cause) *Cause {
	if i := slices.IndexFunc(causes, Cause.provenRoot); i >= 0 {
		return &causes[i]
	}
	return nil
}

// starvedNow is the trainer waiting at present, with the regime as its cause.
func starvedNow(m *measurements, reg *regime, causes []Cause) *Finding {
	if !m.starving() {
		return nil
	}
	since := starvedSince(m)
	wait := m.mean(m.present, (*step).wait)
	text := fmt.Sprintf("The trainer waits %s of a %s step (%s)",
		units.Seconds(wait), units.Seconds(reg.StepSec), units.Percent(wait/reg.StepSec))
	if s := m.starvation; s.Steps == 1 {
		text = fmt.Sprintf("The trainer waited %s in step %d", units.Seconds(m.waitIn(s.Since)), s.Since)
	}
	f := &Finding{
		Cause: starvationCause(reg, causes), Verdict: VerdictProblem, Since: &since,
		Text: text + ", " + because(reg, causes) + ".", Evidence: append([]Evidence(nil), reg.Evidence...), starved: true,
	}
	if first := firstRoot(causes); first != nil {
		f.Evidence, f.Fix = append(slices.Clone(first.Evidence), f.Evidence...), first.Fix
	}
	return f
}

// slowerBefore is a slow time that is over, with what explains it.
func slowerBefore(m *measurements, over *slowTime, causes []Cause) *Finding {
	if over != nil {
		if first := firstRoot(over.byCauses); first != nil && first.Name != CauseColdEngines {
			text := fmt.Sprintf("From step %d to step %d a step took %s longer, and no longer does: %s.", over.rise.At, over.to,
				units.Seconds(over.rise.DeltaSec), first.Text)
			return &Finding{Cause: first.Name, Verdict: VerdictHealed, Since: &over.rise.At, Text: text,
				Evidence: first.Evidence, Fix: first.Fix}
		}
	}
	if first := firstRoot(causes); first != nil && !m.starving() &&
		(first.Name == CauseEngineBack || first.Name == CauseColdEngines) {
		return &Finding{Cause: first.Name, Verdict: VerdictHealed, Since: first.Felt, Text: upperFirst(first.Text) + ".",
			Evidence: first.Evidence, Fix: first.Fix}
	}
	return nil
}

// waitIn is the trainer's wait in one step.
func (h *history) waitIn(no rollout.Step) float64 {
	for i := range h.steps {
		if s := &h.steps[i]; s.no == no {
			return s.wait()
		}
	}
	return 0
}

// starvedSince is the step since which the run is starved: where the step time rose if it was the wait that
// did it, else the first wait. The rise is steadier: a first wait may be a single late game.
func starvedSince(m *measurements) rollout.Step {
	if m.rise != nil && m.rise.First == steprecord.PhaseWait {
		return max(m.starvation.Since, m.rise.At)
	}
	return m.starvation.Since
}

// provenRoot reports a cause behind a regime: it is the event, and the regime only its symptom.
func (c Cause) provenRoot() bool {
	return c.Decision == IsCause && c.Name != CauseThroughput && c.Name != CauseLatency
}

func starvationCause(reg *regime, causes []Cause) CauseName {
	if first := firstRoot(causes); first != nil {
		return first.Name
	}
	return causeOfRegime(reg)
}

// causeOfRegime is the limit of the step time as a cause.
func causeOfRegime(reg *regime) CauseName {
	switch {
	case reg.Resource == WorkerSlots:
		return CauseWorkers
	case reg.Kind == CapacityBound:
		return CauseThroughput
	case reg.Kind == LatencyBound:
		return CauseLatency
	}
	return CauseStarvation
}

// because is the cause that explains most, and how it shows; without one, the regime.
func because(reg *regime, causes []Cause) string {
	text := becauseOfRegime(reg)
	for _, c := range causes {
		if c.provenRoot() && !strings.Contains(text, c.Text) { // an operator's change has the text of what it changed
			text += "; " + c.Text
		}
	}
	return text
}

func becauseOfRegime(reg *regime) string {
	inUse := units.Percent(reg.slots.share)
	switch {
	case reg.Resource == WorkerSlots:
		return fmt.Sprintf("because the workers have no room for more games; "+
			"the engines do (%s of their slots in use)", inUse)
	case reg.Kind == CapacityBound && reg.Resource == EngineSpeed:
		return fmt.Sprintf("because the engines are saturated, though %s of their slots are free: %s",
			units.Percent(1-reg.slots.share), reg.speed.onlySlower())
	case reg.Resource == EngineMemory:
		return "because the engines' KV caches are full: " + reg.memory.text()
	case reg.Resource == AdapterSlots:
		return fmt.Sprintf("because %s: requests wait for each other's adapters, beside %s of the request slots that are "+
			"free", reg.adapters.text(), units.Percent(1-reg.slots.share))
	case reg.Kind == UndecidedRegime:
		return fmt.Sprintf("because a batch's games take %s, of which a depth of %d hides %s; whether engines with "+
			"%s requests in flight have room or are saturated cannot be told from the loads that the run has seen",
			units.Seconds(reg.LatencySec), reg.Depth, units.Seconds(float64(reg.Depth)*reg.ComputeSec),
			units.Number(reg.speed.Load))
	case reg.Kind == CapacityBound:
		return fmt.Sprintf("because the engines need %s for a batch that is trained on in %s",
			units.Seconds(reg.StepSec), units.Seconds(reg.ComputeSec))
	case reg.Kind == LatencyBound:
		return fmt.Sprintf("because a batch's games take %s, of which a depth of %d hides %s; "+
			"the engines have room (%s of their slots in use)",
			units.Seconds(reg.LatencySec), reg.Depth, units.Seconds(float64(reg.Depth)*reg.ComputeSec), inUse)
	}
	return "which is measured; why, the records cannot say yet"
}

// trainerSlower is a present shift towards slower steps that is not the wait's.
func trainerSlower(m *measurements, causes []Cause) *Finding {
	first := firstRoot(causes)
	if m.rise == nil || m.rise.First == steprecord.PhaseWait && (first == nil || !ofTrainer(first.Name)) {
		return nil
	}
	s := *m.rise
	f := &Finding{Cause: CauseTrainer, Verdict: VerdictProblem, Since: &s.At}
	switch s.First {
	case steprecord.PhaseRefLogprobs:
		f.Cause = CauseRefLogprobs
	case steprecord.PhaseCheckpoint:
		f.Cause = CauseCheckpoint
	case steprecord.PhasePublish:
		f.Cause = CausePublish
	}
	var grown []string
	for _, d := range s.Phases {
		if d.Share >= someOf {
			phase := PhaseText(d.Phase)
			grown = append(grown, phase+" "+units.SignedSeconds(d.DeltaSec))
			text := fmt.Sprintf("%s: %s before, %s after", phase, units.Seconds(d.BeforeSec), units.Seconds(d.AfterSec))
			f.Evidence = append(f.Evidence, Evidence{text, Measured})
		}
	}
	f.Text = fmt.Sprintf("Since step %d a step takes %s longer, most of it in the trainer itself: %s.",
		s.At, units.Seconds(s.DeltaSec), strings.Join(grown, ", "))
	if first != nil {
		f.Cause, f.Fix = first.Name, first.Fix
		if first.Event != nil || !ofTrainer(first.Name) {
			f.Text += " " + upperFirst(first.Text) + "."
		}
	}
	return f
}

// upperFirst is a text with a capital.
func upperFirst(text string) string { return strings.TrimSuffix(sentence(text), ".") }

// starvedSoon warns of a starvation that a prefilled buffer still hides.
func (p *predictions) starvedSoon(m *measurements, reg *regime) *Finding {
	replay := p.replay
	last := m.steps[len(m.steps)-1].no
	foreseen := replay != nil && replay.Explains && replay.Onset != nil && *replay.Onset > last
	if m.starving() || !foreseen || !p.willStarve(m, reg) {
		return nil
	}
	from, to, _ := m.bufferDrain()
	text := fmt.Sprintf("The buffer is running empty: from about step %d on a step will take %s instead of %s.",
		*replay.Onset, units.Seconds(replay.StepSec), units.Seconds(reg.StepSec))
	fell := fmt.Sprintf("batches ready at the claim fell from %.1f to %.1f", from.ready, to.ready)
	return &Finding{Cause: CauseThroughput, Verdict: VerdictWarning, Since: replay.Onset, Text: text,
		Evidence: []Evidence{{fell, Measured}}}
}

// withAlarms puts what keeps the games from being played before everything else: steps can say nothing about games that
// do not end.
func withAlarms(r Report, alarms []runstatus.Alarm) Report {
	if len(alarms) == 0 {
		return r
	}
	found := make([]Finding, 0, len(alarms)+len(r.Findings))
	next := []string{}
	for _, a := range alarms {
		found = append(found, Finding{
			Cause: CauseName(a.Code), Verdict: VerdictProblem, Text: sentence(a.Text), Evidence: []Evidence{{a.Text, Measured}},
		})
		next = append(next, a.Advice)
	}
	r.Findings = append(found, r.Findings...)
	r.Verdict, r.Summary = VerdictProblem, found[0].Text
	r.Severity, r.Brief, r.Loss = SeverityStuck, found[0].Cause.Words(), 0
	r.Next = append(next, r.Next...)
	r.Missing = []string{} // what more steps would tell is not what is needed
	return r
}

// sentence is a text with a capital and a full stop.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(text[size:], ".") + "."
}
