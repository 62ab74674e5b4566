package runmachine

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// varianceWindow is how many groups, the latest, tell whether there is something to learn; fewer than half of it tell
// nothing.
const varianceWindow = 32

// rewardVariance is which of the latest groups have rewards that differ, in the order of their ends.
type rewardVariance struct {
	Latest    []playedGroup `json:"latest,omitempty"`
	Collapsed bool          `json:"collapsed,omitempty"`
}

// playedGroup is a group whose games were played to their end.
type playedGroup struct {
	Seq          rollout.GroupSeq `json:"seq"`
	ZeroVariance bool             `json:"zero_variance,omitempty"` // all rewards were equal
}

// add takes one more group, and reports whether that raised the alarm or took it back. What raises it is not what
// takes it back, so that it does not flutter. Hearing of the same group again changes nothing.
func (w *rewardVariance) add(seq rollout.GroupSeq, zeroVariance bool) (changed bool) {
	if slices.ContainsFunc(w.Latest, func(p playedGroup) bool { return p.Seq == seq }) {
		return false
	}
	w.Latest = append(w.Latest, playedGroup{seq, zeroVariance})
	if surplus := len(w.Latest) - varianceWindow; surplus > 0 {
		w.Latest = slices.Delete(w.Latest, 0, surplus)
	}
	variance := w.summary()
	before := w.Collapsed
	switch {
	case variance.Groups < varianceWindow/2:
	case 2*variance.ZeroVariance > variance.Groups:
		w.Collapsed = true
	case 3*variance.ZeroVariance <= variance.Groups:
		w.Collapsed = false
	}
	return w.Collapsed != before
}

func (w *rewardVariance) summary() runstatus.RewardVariance {
	s := runstatus.RewardVariance{Groups: len(w.Latest), Collapsed: w.Collapsed}
	for _, p := range w.Latest {
		if p.ZeroVariance {
			s.ZeroVariance++
		}
	}
	return s
}

// learnVariance notes whether a group that was played to its end has anything to teach.
func (m *Machine) learnVariance(ev GroupEnded) {
	whole := ev.Code == "" || ev.Code == rollout.CodeZeroVariance
	if !whole || !m.Variance.add(ev.Seq, ev.ZeroVariance) {
		return
	}
	m.Changes++
	m.varianceChanged = true
	variance := m.Variance.summary()
	if variance.Collapsed {
		m.note(fmt.Sprintf("no reward variance: all rewards are equal in %d of the latest %d groups",
			variance.ZeroVariance, variance.Groups))
		return
	}
	m.note(fmt.Sprintf("reward variance again: all rewards are equal in only %d of the latest %d groups",
		variance.ZeroVariance, variance.Groups))
}
