package workflows

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/rollout"
)

// RunInput starts a run, or carries it over when its history is cut (continue-as-new).
type RunInput struct {
	Spec   rollout.Spec `json:"spec"`
	Queues Queues       `json:"queues"`
	// Deployment is whose ids the run's groups have; empty in a run that an earlier version began.
	Deployment Deployment `json:"deployment,omitempty"`
	State      *runState  `json:"state,omitempty"`   // nil on the first execution
	Resumed    bool       `json:"resumed,omitempty"` // the first execution after the run was lost
}

// runState is the whole state of a run: plain data, carried from one execution to the next.
type runState struct {
	Spec      rollout.Spec          `json:"spec"` // as changed since
	State     rollout.RunState      `json:"state"`
	Reason    string                `json:"reason,omitempty"`
	StartedAt time.Time             `json:"started_at"`
	EndedAt   time.Time             `json:"ended_at,omitzero"`
	NextSeq   rollout.GroupSeq      `json:"next_seq"`
	Playing   []playing             `json:"playing"` // launched, end not heard; by seq
	Ready     []rollout.GroupSeq    `json:"ready"`   // committed, not known to be claimed; by seq
	Claimed   int                   `json:"claimed"` // steps whose batch was formed
	Completed int                   `json:"completed"`
	Version   rollout.PolicyVersion `json:"version"`
	Policies  []rollout.Policy      `json:"policies"`
	Failures  map[string]int64      `json:"failures"` // groups dropped, by code
	Changes   int                   `json:"changes"`  // operator's changes, to number their events

	Versions map[rollout.GroupSeq]rollout.PolicyVersion `json:"versions,omitempty"` // of the groups playing or ready
	Holds    []hold                                     `json:"holds,omitempty"`    // what claimed batches need

	Bytes      int64    `json:"bytes,omitempty"`       // stored, by the latest account
	GroupBytes int64    `json:"group_bytes,omitempty"` // of these, a group's mean
	Signal     flatness `json:"signal,omitzero"`

	Failing int `json:"failing,omitempty"` // groups that failed since one did not

	Looked   time.Time          `json:"looked,omitzero"`     // when groups in play were last looked for
	Missing  []rollout.GroupSeq `json:"missing,omitempty"`   // which had no workflow then, or ended since without a word
	LookNext rollout.GroupSeq   `json:"look_next,omitempty"` // where to go on looking

	// unbounded is a history that was begun before launching was bounded by anything but the depth.
	unbounded bool
	// paced is a history in which groups are launched and cancelled in rounds.
	paced bool
	// rests is a history in which launches pause when all groups fail.
	rests bool
	// careful is a history in which publications are compared, and wait for engines.
	careful bool
}

// playing is one launched group.
type playing struct {
	Seq     rollout.GroupSeq      `json:"seq"`
	Version rollout.PolicyVersion `json:"version"`
}

func newRunState(spec rollout.Spec, now time.Time) *runState {
	return &runState{Spec: spec, State: rollout.RunRunning, StartedAt: now, Failures: map[string]int64{}}
}

// outstanding is how many groups are queued, in flight or ready.
func (s *runState) outstanding() int { return len(s.Playing) + len(s.Ready) }

// known is the outstanding groups, in no order.
func (s *runState) known() []rollout.GroupSeq { return slices.Concat(seqsOf(s.Playing), s.Ready) }

// launch takes the next sequence number and counts the group as playing.
func (s *runState) launch() playing {
	p := playing{Seq: s.NextSeq, Version: s.Version}
	s.NextSeq++
	s.Playing = append(s.Playing, p)
	s.need(p)
	return p
}

// end moves a group out of play. Hearing of the same end twice changes nothing.
func (s *runState) end(seq rollout.GroupSeq, code string) {
	i := slices.IndexFunc(s.Playing, func(p playing) bool { return p.Seq == seq })
	if i < 0 {
		return
	}
	s.Playing = slices.Delete(s.Playing, i, i+1)
	s.failed(code)
	if code != "" {
		delete(s.Versions, seq)
		s.Failures[code]++
		return
	}
	at, _ := slices.BinarySearch(s.Ready, seq)
	s.Ready = slices.Insert(s.Ready, at, seq)
}

// reconcile corrects the account with the buffer's, which is the truth about what is ready, claimed and
// completed. Lost notifications are repaired here; a repeated one finds nothing to do. Groups that the buffer
// does not know yet, because they were launched a moment ago, stay in play. asked is what was ready when the buffer was
// asked: a group that became ready since may be missing in its answer and is kept.
func (s *runState) reconcile(a buffer.Account, asked []rollout.GroupSeq) {
	for _, seq := range a.Ready {
		s.end(seq, "")
	}
	s.Claimed = int(a.ClaimedTo)
	s.Completed = int(a.NextStep)
	s.Bytes, s.GroupBytes = a.Counts.Bytes, a.GroupBytes
	s.Ready = slices.DeleteFunc(s.Ready, func(seq rollout.GroupSeq) bool {
		gone := slices.Contains(asked, seq) && !slices.Contains(a.Ready, seq)
		if gone {
			s.claimed(seq)
		}
		return gone
	})
	s.release()
	s.NextSeq = max(s.NextSeq, a.Highest+1) // behind only after a reset to an older history
}

// policy finds a version among those published, or nil. The pointer is good until the next publication.
func (s *runState) policy(v rollout.PolicyVersion) *rollout.Policy {
	i, found := slices.BinarySearchFunc(s.Policies, v, func(p rollout.Policy, v rollout.PolicyVersion) int {
		return cmp.Compare(p.Version, v)
	})
	if !found {
		return nil
	}
	return &s.Policies[i]
}

// keptPolicies bounds how many retired or rejected versions a status shows.
const keptPolicies = 8

// forget drops the oldest versions that no longer serve.
func (s *runState) forget() {
	surplus := len(s.Policies) - keptPolicies
	s.Policies = slices.DeleteFunc(s.Policies, func(p rollout.Policy) bool {
		if surplus <= 0 || p.State == rollout.PolicyServing || p.State == rollout.PolicyLoading {
			return false
		}
		surplus--
		return true
	})
}

func (s *runState) status() rollout.RunStatus {
	return rollout.RunStatus{
		Spec: s.Spec, State: s.State, Reason: s.Reason, StartedAt: s.StartedAt, EndedAt: s.EndedAt,
		NextStep: rollout.Step(s.Completed), PolicyVersion: s.Version, Policies: slices.Clone(s.Policies),
		Launched: int64(s.NextSeq), Outstanding: int64(s.outstanding()), Failures: s.Failures,
		Throttle: s.throttle(), Signal: s.Signal.signal(),
	}
}

// apply makes an operator's change, already validated.
func (s *runState) apply(c rollout.Change) {
	s.Spec = s.Spec.With(c)
	s.Failing = 0 // what was changed may have been at fault
	if c.Paused != nil {
		s.State, s.Reason = rollout.RunRunning, ""
		if *c.Paused {
			s.State, s.Reason = rollout.RunPaused, "paused by an operator"
		}
	}
	s.Changes++
}
