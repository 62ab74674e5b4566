package workflows

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
)

// signalWindow is how many groups, the latest, tell whether there is something to learn; fewer than half of it tell
// nothing.
const signalWindow = 32

// flatness is the signal of the latest groups, in the order of their ends.
type flatness struct {
	Latest    []played `json:"latest,omitempty"`
	Collapsed bool     `json:"collapsed,omitempty"`
}

// played is a group whose games were played to their end.
type played struct {
	Seq  rollout.GroupSeq `json:"seq"`
	Flat bool             `json:"flat,omitempty"` // all rewards were equal
}

// add takes one more group, and reports whether that raised the alarm or took it back. What raises it is not what
// takes it back, so that it does not flutter. Hearing of the same group again changes nothing.
func (f *flatness) add(seq rollout.GroupSeq, flat bool) (changed bool) {
	if slices.ContainsFunc(f.Latest, func(p played) bool { return p.Seq == seq }) {
		return false
	}
	f.Latest = append(f.Latest, played{seq, flat})
	if surplus := len(f.Latest) - signalWindow; surplus > 0 {
		f.Latest = slices.Delete(f.Latest, 0, surplus)
	}
	signal := f.signal()
	before := f.Collapsed
	switch {
	case signal.Groups < signalWindow/2:
	case 2*signal.Flat > signal.Groups:
		f.Collapsed = true
	case 3*signal.Flat <= signal.Groups:
		f.Collapsed = false
	}
	return f.Collapsed != before
}

func (f *flatness) signal() rollout.Signal {
	s := rollout.Signal{Groups: len(f.Latest), Collapsed: f.Collapsed}
	for _, p := range f.Latest {
		if p.Flat {
			s.Flat++
		}
	}
	return s
}

// learn notes whether a group that was played to its end has anything to teach.
func (r *run) learn(end activities.GroupEnd) {
	whole := end.Code == "" || end.Code == activities.ZeroVariance
	if !whole || !r.Signal.add(end.Seq, end.Flat) {
		return
	}
	r.Changes++
	r.learning = true
	signal := r.Signal.signal()
	if signal.Collapsed {
		r.note(fmt.Sprintf("no signal: all rewards are equal in %d of the latest %d groups", signal.Flat, signal.Groups))
		return
	}
	r.note(fmt.Sprintf("signal again: all rewards are equal in only %d of the latest %d groups", signal.Flat, signal.Groups))
}
