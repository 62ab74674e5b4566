package workflows

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
)

// varianceWindow is how many groups, the latest, tell whether there is something to learn; fewer than half of it tell
// nothing.
const varianceWindow = 32

// latestVariance is the reward variance of the latest groups, in the order of their ends.
type latestVariance struct {
	Latest    []played `json:"latest,omitempty"`
	Collapsed bool     `json:"collapsed,omitempty"`
}

// played is a group whose games were played to their end.
type played struct {
	Seq          rollout.GroupSeq `json:"seq"`
	ZeroVariance bool             `json:"flat,omitempty"` // all rewards were equal
}

// add takes one more group, and reports whether that raised the alarm or took it back. What raises it is not what
// takes it back, so that it does not flutter. Hearing of the same group again changes nothing.
func (f *latestVariance) add(seq rollout.GroupSeq, zeroVariance bool) (changed bool) {
	if slices.ContainsFunc(f.Latest, func(p played) bool { return p.Seq == seq }) {
		return false
	}
	f.Latest = append(f.Latest, played{seq, zeroVariance})
	if surplus := len(f.Latest) - varianceWindow; surplus > 0 {
		f.Latest = slices.Delete(f.Latest, 0, surplus)
	}
	variance := f.summary()
	before := f.Collapsed
	switch {
	case variance.Groups < varianceWindow/2:
	case 2*variance.ZeroVariance > variance.Groups:
		f.Collapsed = true
	case 3*variance.ZeroVariance <= variance.Groups:
		f.Collapsed = false
	}
	return f.Collapsed != before
}

func (f *latestVariance) summary() rollout.RewardVariance {
	s := rollout.RewardVariance{Groups: len(f.Latest), Collapsed: f.Collapsed}
	for _, p := range f.Latest {
		if p.ZeroVariance {
			s.ZeroVariance++
		}
	}
	return s
}

// learn notes whether a group that was played to its end has anything to teach.
func (r *run) learn(end activities.GroupEnd) {
	whole := end.Code == "" || end.Code == activities.ZeroVariance
	if !whole || !r.RewardVariance.add(end.Seq, end.ZeroVariance) {
		return
	}
	r.Changes++
	r.learning = true
	variance := r.RewardVariance.summary()
	if variance.Collapsed {
		r.note(fmt.Sprintf("no reward variance: all rewards are equal in %d of the latest %d groups", variance.ZeroVariance, variance.Groups))
		return
	}
	r.note(fmt.Sprintf("reward variance again: all rewards are equal in only %d of the latest %d groups", variance.ZeroVariance, variance.Groups))
}
