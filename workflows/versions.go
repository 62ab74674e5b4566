package workflows

import (
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// Which versions the engines must keep: a group needs the version that it was launched with, and all newer ones,
// until its games are played and the step that it is trained in is completed, for a trainer may still ask an engine
// about it. The account is part of the run's state, so that it survives crashes with it; fixed policies are not in
// it, because they are needed as long as the run goes on.

// hold is what claimed batches need: a version, until so many steps are completed.
type hold struct {
	Version rollout.PolicyVersion `json:"version"`
	Until   int                   `json:"until"`
}

// need notes the version of a group that was launched.
func (s *runState) need(p playing) {
	if s.Versions == nil {
		s.Versions = map[rollout.GroupSeq]rollout.PolicyVersion{}
	}
	s.Versions[p.Seq] = p.Version
}

// claimed turns the need of a group that is no longer ready into a hold of the batches claimed so far, of which it
// may be part.
func (s *runState) claimed(seq rollout.GroupSeq) {
	v, known := s.Versions[seq]
	if !known {
		return
	}
	delete(s.Versions, seq)
	if h := (hold{v, s.Claimed}); !slices.Contains(s.Holds, h) {
		s.Holds = append(s.Holds, h)
	}
}

// release lets go of what completed steps needed.
func (s *runState) release() {
	s.Holds = slices.DeleteFunc(s.Holds, func(h hold) bool { return s.Completed >= h.Until })
}

// oldestNeeded is the oldest version that engines must keep.
func (s *runState) oldestNeeded() rollout.PolicyVersion {
	oldest := s.Version
	for _, p := range s.Playing {
		oldest = min(oldest, p.Version)
	}
	//workflowcheck:ignore the least of all values does not depend on the order in which they come
	for _, v := range s.Versions {
		oldest = min(oldest, v)
	}
	for _, h := range s.Holds {
		oldest = min(oldest, h.Version)
	}
	return oldest
}

// unused lists the served versions that nothing needs.
func (s *runState) unused() []rollout.Policy {
	oldest := s.oldestNeeded()
	var out []rollout.Policy
	for _, p := range s.Policies {
		if p.State == rollout.PolicyServing && p.Version < oldest {
			out = append(out, p)
		}
	}
	return out
}
