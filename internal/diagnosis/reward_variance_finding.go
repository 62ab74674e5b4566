package diagnosis

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// enoughToLearn is how many groups tell whether there is something to learn; fewer tell nothing.
const enoughToLearn = 16

// stepsOfEvidence is how many of the latest steps are looked at for what was trained on.
const stepsOfEvidence = 8

// presentVariance is how many of the latest groups had equal rewards: as the run counts them, those that were dropped
// for it included, or else as the records have those that were trained on.
func presentVariance(m *measurements) runstatus.RewardVariance {
	if m.in.RewardVariance.Groups > 0 {
		return m.in.RewardVariance
	}
	var s runstatus.RewardVariance
	for i := len(m.all) - 1; i >= 0 && s.Groups < 2*enoughToLearn; i-- {
		v := m.all[i].view()
		s.Groups += len(v.Groups)
		s.ZeroVariance += v.ZeroVarianceGroups
	}
	s.Collapsed = s.Groups >= enoughToLearn && 2*s.ZeroVariance > s.Groups
	return s
}

// noVariance is the trainer learning nothing, now or for a while.
func noVariance(m *measurements) *Finding {
	s := presentVariance(m)
	since, until := lastCollapse(m)
	if !s.Collapsed {
		if since == nil || until == nil {
			return nil
		}
		text := fmt.Sprintf("There was little or nothing to learn from step %d until step %d: "+
			"in most groups all rewards were equal.", *since, *until)
		return &Finding{Cause: CauseNoRewardVariance, Verdict: VerdictHealed, Since: since, Text: text}
	}
	f := &Finding{Cause: CauseNoRewardVariance, Verdict: VerdictProblem, Since: since}
	f.Text = fmt.Sprintf("There is %s to learn", Learnable(s))
	if since != nil {
		f.Text += fmt.Sprintf(" since step %d", *since)
	}
	f.Text += fmt.Sprintf(": in %d of the latest %d groups all rewards were equal, so that no gradient comes of them. ",
		s.ZeroVariance, s.Groups)
	if m.in.Spec.Group.ZeroVariance == runspec.DropZeroVariance {
		f.Verdict = VerdictWarning
		f.Text += "They are dropped, and others played in their place at the engines' expense. "
	}
	f.Text += varianceAdvice(m.in.Spec)
	f.Evidence = varianceEvidence(m, s)
	return f
}

// Learnable is how much there is to learn from collapsed variance, "nothing" or "little": it counts as collapsed until
// a third or fewer groups have equal rewards.
func Learnable(s runstatus.RewardVariance) string {
	if 10*s.ZeroVariance >= 9*s.Groups {
		return "nothing"
	}
	return "little"
}

// lastCollapse is the last time without variance, in steps: from the first batch that was claimed after the run said
// so, or that had mostly equal rewards where the run said nothing, to the first one after it was taken back. until is
// nil while it lasts.
func lastCollapse(m *measurements) (since, until *rollout.Step) {
	for _, c := range m.in.RewardVarianceChanges {
		if c.RewardVariance.Collapsed {
			since, until = m.stepAt(c.At), nil
		} else if since != nil {
			until = m.stepAt(c.At)
		}
	}
	if len(m.in.RewardVarianceChanges) > 0 {
		return since, until
	}
	for i := len(m.all) - 1; i >= 0; i-- {
		v := m.all[i].view()
		if 2*v.ZeroVarianceGroups <= len(v.Groups) {
			break
		}
		since = &m.all[i].no
	}
	return since, nil
}

// stepAt is the first step whose batch was claimed at a time or after it; nil when none was yet.
func (h *history) stepAt(at time.Time) *rollout.Step {
	for i := range h.all {
		if !h.all[i].view().GrantedAt.Before(at) {
			return &h.all[i].no
		}
	}
	return nil
}

// varianceAdvice names what makes all rewards equal for certain, where the spec says so, and else what may.
func varianceAdvice(spec runspec.Spec) string {
	switch {
	case spec.Group.Samples == 1:
		return "A group of one game has nothing to be compared with: group.samples must be 2 or more."
	case spec.Sampling.Temperature == 0:
		return "sampling.temperature is 0, which makes the games of a group alike."
	}
	return fmt.Sprintf("What may help: rewards that tell games apart, a higher sampling.temperature (%s now), more games "+
		"in a group (%d now), opponents that are neither too strong nor too weak.",
		units.Number(spec.Sampling.Temperature), spec.Group.Samples)
}

func varianceEvidence(m *measurements, s runstatus.RewardVariance) []Evidence {
	text := fmt.Sprintf("%d of the latest %d groups had equal rewards for every agent", s.ZeroVariance, s.Groups)
	lines := []Evidence{{text, Measured}}
	equal, groups := 0, 0
	latest := m.all[max(0, len(m.all)-stepsOfEvidence):]
	for i := range latest {
		v := latest[i].view()
		equal += v.ZeroVarianceGroups
		groups += len(v.Groups)
	}
	if groups > 0 {
		text = fmt.Sprintf("of the %d groups trained on in steps %d to %d, %d had equal rewards",
			groups, latest[0].no, latest[len(latest)-1].no, equal)
		lines = append(lines, Evidence{text, Measured})
	}
	for _, d := range m.in.Departures {
		if d.Code == rollout.CodeZeroVariance {
			text = fmt.Sprintf("%d groups of the run were dropped for it (group.zero_variance: drop)", d.Groups)
			lines = append(lines, Evidence{text, Measured})
		}
	}
	return lines
}
