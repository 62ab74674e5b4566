package runmachine

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
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
	Seq  rollout.GroupSeq `json:"seq"`
	Flat bool             `json:"flat,omitempty"` // all rewards were equal
}

// add takes one more group, and reports whether that raised the alarm or took it back. What raises it is not what
// takes it back, so that it does not flutter. Hearing of the same group again changes nothing.
func (w *rewardVariance) add(seq rollout.GroupSeq, flat bool) (changed bool) {
	if slices.ContainsFunc(w.Latest, func(p playedGroup) bool { return p.Seq == seq }) {
		return false
	}
	w.Latest = append(w.Latest, playedGroup{seq, flat})
	if surplus := len(w.Latest) - varianceWindow; surplus > 0 {
		w.Latest = slices.Delete(w.Latest, 0, surplus)
	}
	signal := w.signal()
	before := w.Collapsed
	switch {
	case signal.Groups < varianceWindow/2:
	case 2*signal.Flat > signal.Groups:
		w.Collapsed = true
	case 3*signal.Flat <= signal.Groups:
		w.Collapsed = false
	}
	return w.Collapsed != before
}

func (w *rewardVariance) signal() rollout.Signal {
	s := rollout.Signal{Groups: len(w.Latest), Collapsed: w.Collapsed}
	for _, p := range w.Latest {
		if p.Flat {
			s.Flat++
		}
	}
	return s
}

// learnVariance notes whether a group that was played to its end has anything to teach.
func (m *Machine) learnVariance(ev GroupEnded) {
	whole := ev.Code == "" || ev.Code == ZeroVariance
	if !whole || !m.Variance.add(ev.Seq, ev.Flat) {
		return
	}
	m.Changes++
	m.varianceChanged = true
	signal := m.Variance.signal()
	if signal.Collapsed {
		m.note(fmt.Sprintf("no signal: all rewards are equal in %d of the latest %d groups", signal.Flat, signal.Groups))
		return
	}
	m.note(fmt.Sprintf("signal again: all rewards are equal in only %d of the latest %d groups", signal.Flat, signal.Groups))
}
