package diagnosis

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/units"
)

// SignalChange is the moment at which most groups ceased to say anything to the trainer, or began to again.
type SignalChange struct {
	At     time.Time
	Signal rollout.Signal
}

// enoughToLearn is how many groups tell whether there is something to learn; fewer tell nothing.
const enoughToLearn = 16

// stepsOfEvidence is how many of the latest steps are looked at for what was trained on.
const stepsOfEvidence = 8

// signalNow is how many of the latest groups were flat: as the run counts them, those that were dropped for it
// included, or else as the records have those that were trained on.
func (q *inquiry) signalNow() rollout.Signal {
	if s := q.in.Signal; s.Groups > 0 {
		return s
	}
	var s rollout.Signal
	for i := len(q.ledger.all) - 1; i >= 0 && s.Groups < 2*enoughToLearn; i-- {
		v := q.ledger.all[i].view()
		s.Groups += len(v.Groups)
		s.Flat += v.FlatGroups
	}
	s.Collapsed = s.Groups >= enoughToLearn && 2*s.Flat > s.Groups
	return s
}

// noSignal is the trainer learning nothing, now or for a while.
func (q *inquiry) noSignal(*Report) *Finding {
	s := q.signalNow()
	since, until := q.collapse()
	if !s.Collapsed {
		if since == nil || until == nil {
			return nil
		}
		return &Finding{Cause: CauseNoSignal, Verdict: VerdictHealed, Since: since,
			Text: fmt.Sprintf("There was little or nothing to learn from step %d until step %d: in most groups all rewards were equal.", *since, *until)}
	}
	f := &Finding{Cause: CauseNoSignal, Verdict: VerdictProblem, Since: since, Text: fmt.Sprintf("There is %s to learn", Learnable(s))}
	if since != nil {
		f.Text += fmt.Sprintf(" since step %d", *since)
	}
	f.Text += fmt.Sprintf(": in %d of the latest %d groups all rewards were equal, so that no gradient comes of them. ", s.Flat, s.Groups)
	if q.in.Spec.Group.ZeroVariance == rollout.DropFlat {
		f.Verdict = VerdictWarning
		f.Text += "They are dropped, and others played in their place at the engines' expense. "
	}
	f.Text += q.signalAdvice()
	f.Evidence = q.signalEvidence(s)
	return f
}

// Learnable is what a collapsed signal leaves to learn from, "nothing" or "little": it counts as collapsed until a
// third or fewer groups are flat.
func Learnable(s rollout.Signal) string {
	if 10*s.Flat >= 9*s.Groups {
		return "nothing"
	}
	return "little"
}

// collapse is the last time without a signal, in steps: from the first batch that was claimed after the alarm, or that
// was mostly flat where no alarm was recorded, to the first one after it was taken back. until is nil while it lasts.
func (q *inquiry) collapse() (since, until *rollout.Step) {
	for _, c := range q.in.Signals {
		if c.Signal.Collapsed {
			since, until = q.stepAt(c.At), nil
		} else if since != nil {
			until = q.stepAt(c.At)
		}
	}
	if len(q.in.Signals) > 0 {
		return since, until
	}
	for i := len(q.ledger.all) - 1; i >= 0; i-- {
		v := q.ledger.all[i].view()
		if 2*v.FlatGroups <= len(v.Groups) {
			break
		}
		since = &q.ledger.all[i].no
	}
	return since, nil
}

// stepAt is the first step whose batch was claimed at a time or after it; nil when none was yet.
func (q *inquiry) stepAt(at time.Time) *rollout.Step {
	for i := range q.ledger.all {
		if !q.ledger.all[i].view().GrantedAt.Before(at) {
			return &q.ledger.all[i].no
		}
	}
	return nil
}

// signalAdvice names what makes all rewards equal for certain, where the spec says so, and else what may.
func (q *inquiry) signalAdvice() string {
	spec := q.in.Spec
	switch {
	case spec.Group.Samples == 1:
		return "A group of one game has nothing to be compared with: group.samples must be 2 or more."
	case spec.Sampling.Temperature == 0:
		return "sampling.temperature is 0, which makes the games of a group alike."
	}
	return fmt.Sprintf("What may help: rewards that tell games apart, a higher sampling.temperature (%s now), more games in a group (%d now), "+
		"opponents that are neither too strong nor too weak.", units.Number(spec.Sampling.Temperature), spec.Group.Samples)
}

func (q *inquiry) signalEvidence(s rollout.Signal) []Evidence {
	lines := []Evidence{{fmt.Sprintf("%d of the latest %d groups had equal rewards for every agent", s.Flat, s.Groups), Measured}}
	flat, groups := 0, 0
	latest := q.ledger.all[max(0, len(q.ledger.all)-stepsOfEvidence):]
	for i := range latest {
		v := latest[i].view()
		flat += v.FlatGroups
		groups += len(v.Groups)
	}
	if groups > 0 {
		lines = append(lines, Evidence{fmt.Sprintf("of the %d groups trained on in steps %d to %d, %d had equal rewards",
			groups, latest[0].no, latest[len(latest)-1].no, flat), Measured})
	}
	for _, d := range q.in.Departures {
		if d.Code == zeroVariance {
			lines = append(lines, Evidence{fmt.Sprintf("%d groups of the run were dropped for it (group.zero_variance: drop)", d.Groups), Measured})
		}
	}
	return lines
}
