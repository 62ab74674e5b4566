package workflows

import (
	"github.com/millrace/millrace/internal/rollout"
)

// room is how many groups may be queued, in flight or ready, and what keeps that below the depth, if anything does:
// the depth, but never more than the steps still to be claimed can use, than can be trained on while they are
// fresh, or than fit. What a batch needs always fits, so that a bound in bytes slows a run down and cannot stop it.
func (s *runState) room() (int, rollout.Throttle) {
	b := s.Spec.Buffer
	room, why := min(b.Depth, s.Spec.Steps-s.Claimed)*b.GroupsPerStep, rollout.Throttle("")
	if s.unbounded {
		return room, why
	}
	if admitted := b.AdmittedSteps(s.Claimed-s.Completed) * b.GroupsPerStep; admitted < room {
		room, why = admitted, rollout.ThrottleStaleness
	}
	if b.MaxBytes > 0 {
		if fitting := max(s.fitting(), b.GroupsPerStep); fitting < room {
			room, why = fitting, rollout.ThrottleBytes
		}
	}
	return room, why
}

// fitting is how many groups the bound in bytes has room for: those that are ready, which are stored already, and as
// many more as fit beside everything stored if they come to the mean. Nothing is known before the first is stored.
func (s *runState) fitting() int {
	if s.GroupBytes <= 0 {
		return 0
	}
	return len(s.Ready) + int(max(0, s.Spec.Buffer.MaxBytes-s.Bytes)/s.GroupBytes)
}

// launches is how many groups to start now.
func (s *runState) launches() int {
	if s.State != rollout.RunRunning {
		return 0
	}
	room, _ := s.room()
	if missing := room - s.outstanding(); s.paced {
		return s.admitted(missing)
	}
	return max(0, room-s.outstanding())
}

// throttle is what keeps the run from launching as many groups as its depth asks for.
func (s *runState) throttle() rollout.Throttle {
	if s.State != rollout.RunRunning {
		return ""
	}
	if s.rests && s.respite() > 0 {
		return rollout.ThrottleFailures
	}
	_, why := s.room()
	return why
}
