package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

const (
	// healthyLoss is the share of the time that a healthy run may lose.
	healthyLoss = 0.05
	// saidLoss is the share from which on a loss is worth a word, and leastLoss that from which on it is one of the
	// reasons why a run is not healthy.
	saidLoss  = 0.005
	leastLoss = 0.02
	// slowStep is by how much of its level a single step must be longer to be a finding of its own, if it cost at least
	// saidLoss of the time.
	slowStep = 0.5
)

// text describes a loss: its kind, its frequency, and the cost of one time.
func (l Loss) text() string {
	each := units.Seconds(l.PerStepSec())
	of := fmt.Sprintf("%s in %s", units.Seconds(l.Sec), stepsText(l.Steps))
	switch l.Cause {
	case CauseCheckpoint, CausePeriodicPhase, CauseRarePhase:
		return fmt.Sprintf("%s%s, %s each", l.what(), l.often(), each)
	case CauseSingleStep:
		if l.Steps == 1 {
			return fmt.Sprintf("step %d took %s, %s of it more than usual in %s", l.Worst, units.Seconds(l.WorstSec), each,
				PhaseText(l.Phase))
		}
		return fmt.Sprintf("%s, the longest step %d with %s, took longer than usual in %s, by %s each", stepsText(l.Steps),
			l.Worst, units.Seconds(l.WorstSec), PhaseText(l.Phase), each)
	case CausePaused:
		in := stepsText(l.Steps)
		if l.Steps == 1 {
			in = fmt.Sprintf("step %d", l.First)
		}
		return fmt.Sprintf("%s took longer in %s because the run was paused, or its engines were not back yet",
			PhaseText(l.Phase), in)
	case CausePublish:
		return "publishing weights took at least " + each + " of a step"
	case CauseTrainer, CauseRefLogprobs:
		return fmt.Sprintf("%s took %s longer per step than it did at its best", PhaseText(l.Phase), each)
	case CauseRestart:
		return fmt.Sprintf("another trainer process took over, %s: %s without a step", times(l.Steps), units.Seconds(l.Sec))
	case CauseBetweenSteps:
		return fmt.Sprintf("the trainer had no step, %s: %s", times(l.Steps), units.Seconds(l.Sec))
	}
	return "the trainer waited for batches: " + of
}

// what names a phase that is no training.
func (l Loss) what() string {
	switch {
	case l.Cause == CauseCheckpoint:
		return "a checkpoint"
	case l.Name != "":
		return fmt.Sprintf("%q", l.Name)
	case l.Phase == steprecord.PhaseOther:
		return "something that the trainer does not name, such as a checkpoint or an evaluation,"
	}
	return PhaseText(l.Phase) + " took longer"
}

func (l Loss) often() string {
	switch {
	case l.Every == 1:
		return " in every step"
	case l.Every > 1:
		return fmt.Sprintf(" every %d steps", l.Every)
	}
	return " in " + stepsText(l.Steps)
}

func stepsText(n int) string {
	if n == 1 {
		return "1 step"
	}
	return fmt.Sprintf("%d steps", n)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// starves reports whether a loss is the trainer waiting for batches.
func (l Loss) starves() bool {
	return l.Phase == steprecord.PhaseWait && l.Cause != CauseSingleStep && l.Cause != CausePaused
}

// lossFindings lists losses of the ledger that no other finding covers. A run that lost more than healthyLoss has a
// finding for every loss that matters; a single step is a finding already when it costs much of itself.
func lossFindings(l *Ledger, found []Finding, last rollout.Step) []Finding {
	known := func(cause CauseName) bool {
		return slices.ContainsFunc(found, func(f Finding) bool { return f.Cause == cause })
	}
	much := l.LostShare > healthyLoss
	var out []Finding
	for _, loss := range l.Losses {
		single := loss.Cause == CauseSingleStep && loss.Share >= saidLoss &&
			loss.PerStepSec() >= slowStep*(loss.WorstSec-loss.PerStepSec())
		said := much && (loss.Share > healthyLoss || loss.Share >= leastLoss && len(found) == 0)
		trainer := loss.Cause == CauseTrainer || loss.Cause == CauseRefLogprobs
		if !single && !said || known(loss.Cause) || (loss.starves() || trainer) && len(found) > 0 {
			continue
		}
		out = append(out, loss.finding(last))
	}
	if much && len(out) == 0 && len(found) == 0 && len(l.Losses) > 0 { // many small ones
		out = append(out, l.Losses[0].finding(last))
	}
	return out
}

// finding states a loss: a problem while it goes on.
func (l Loss) finding(last rollout.Step) Finding {
	first := l.First
	text := strings.ToUpper(l.Text[:1]) + l.Text[1:]
	f := Finding{
		Cause: l.Cause, Verdict: VerdictHealed, Since: &first,
		Text:     fmt.Sprintf("%s: %s, %s of the time.", text, units.Seconds(l.Sec), units.Percent(l.Share)),
		Evidence: []Evidence{{l.Text, Measured}},
	}
	if l.lasts(last) {
		f.Verdict = VerdictProblem
	}
	if fix := l.fix(); fix != "" {
		f.Fix = &Fix{Text: fix}
	}
	return f
}

// isLoss reports whether a finding is of the ledger alone.
func (f Finding) isLoss(l Loss) bool {
	return l.Cause == f.Cause && !l.starves() && l.Cause != CauseTrainer
}

// lasts reports whether a loss goes on: it is not longer ago than it comes back after.
func (l Loss) lasts(last rollout.Step) bool {
	switch {
	case l.Cause == CauseSingleStep && l.Steps < leastRepeats || l.Cause == CauseRestart || l.Cause == CausePaused:
		return false
	case l.Every > 0:
		return int(last-l.Last) <= 2*l.Every
	case l.Steps > 1:
		return int(last-l.Last) <= 2*int(l.Last-l.First)/(l.Steps-1)
	}
	return false
}

// fix is the way to avoid a loss.
func (l Loss) fix() string {
	switch l.Cause {
	case CauseCheckpoint, CausePeriodicPhase:
		return fmt.Sprintf("do it half as often, which gives back %s of the time, or beside the training",
			units.Percent(l.Share/2))
	case CauseRarePhase:
		return "do it beside the training"
	case CausePublish:
		return "publish in the background, while the next step trains"
	case CauseBetweenSteps:
		return "ask for the next step as soon as one is completed"
	}
	return ""
}

// bySeverity puts a present loss of the ledger first if it costs more than what was found otherwise. What costs no time
// at all, such as rewards that are all equal, is graver.
func bySeverity(found, losses []Finding, l *Ledger) []Finding {
	main := 0.0
	if len(found) > 0 {
		if main = l.shareOf(found[0].Cause); main == 0 && found[0].Verdict == VerdictProblem {
			return slices.Concat(found, losses)
		}
	}
	var first, rest []Finding
	for _, f := range losses {
		if f.Verdict == VerdictProblem && l.shareOf(f.Cause) > main {
			first = append(first, f)
		} else {
			rest = append(rest, f)
		}
	}
	return slices.Concat(first, found, rest)
}

// shareOf is the share of the time that was lost by a cause.
func (l *Ledger) shareOf(cause CauseName) float64 {
	sum := 0.0
	for _, loss := range l.Losses {
		if loss.Cause == cause {
			sum += loss.Share
		}
	}
	return sum
}

// lossCauses is the losses that are findings as causes.
func lossCauses(found []Finding, l *Ledger) []Cause {
	var out []Cause
	for _, f := range found {
		c := Cause{Name: f.Cause, Decision: IsCause, Text: strings.TrimSuffix(f.Text, "."), Basis: Measured, Fix: f.Fix}
		if l.LostShare > 0 {
			of := l.shareOf(f.Cause) / l.LostShare
			c.Share = &Share{Of: of, Low: of, High: of, What: OfLoss}
		}
		out = append(out, c)
	}
	return out
}

// usefulText describes the time of a healthy run.
func usefulText(l *Ledger) string {
	text := fmt.Sprintf("%s of the time was useful compute", units.Percent(l.Goodput()))
	if len(l.Losses) > 0 && l.Losses[0].Share >= saidLoss {
		worst := l.Losses[0]
		text += fmt.Sprintf("; the largest loss: %s (%s of the time)", worst.Text, units.Percent(worst.Share))
	}
	return text
}
