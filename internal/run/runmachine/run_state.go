package runmachine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Run is the whole of a run: plain data, carried from one execution to the next. Its JSON is in the histories of
// running runs: fields are added, never renamed.
type Run struct {
	Spec      runspec.Spec           `json:"spec"` // as changed since
	State     runstatus.RunState     `json:"state"`
	Reason    string                 `json:"reason,omitempty"`
	StartedAt time.Time              `json:"started_at"`
	EndedAt   time.Time              `json:"ended_at,omitzero"`
	NextSeq   rollout.GroupSeq       `json:"next_seq"`
	Playing   []Group                `json:"playing"` // launched, end not heard; by seq
	Ready     []rollout.GroupSeq     `json:"ready"`   // committed, not known to be claimed; by seq
	Claimed   int                    `json:"claimed"` // steps whose batch was formed
	Completed int                    `json:"completed"`
	Refills   int                    `json:"refills,omitempty"` // claimed steps that are to get another batch
	Version   rollout.PolicyVersion  `json:"version"`
	Policies  []runstatus.Policy     `json:"policies"`
	Failures  map[rollout.Code]int64 `json:"failures"`         // groups dropped, by code
	Changes   int                    `json:"changes"`          // to number their events
	Change    string                 `json:"change,omitempty"` // what readers are to be told, and were not yet
	Mirrors   int64                  `json:"mirrors"`          // to number what readers are told

	Versions map[rollout.GroupSeq]rollout.PolicyVersion `json:"versions,omitempty"` // of the groups playing or ready
	Holds    []Hold                                     `json:"holds,omitempty"`    // what claimed batches need

	Bytes      int64          `json:"bytes,omitempty"`       // stored, by the latest account
	GroupBytes int64          `json:"group_bytes,omitempty"` // of these, a group's mean
	Variance   rewardVariance `json:"reward_variance,omitzero"`
	Failing    int            `json:"failing,omitempty"` // groups that failed since one did not

	Looked   time.Time          `json:"looked,omitzero"`     // when groups in play were last looked for
	Missing  []rollout.GroupSeq `json:"missing,omitempty"`   // which had no workflow then, or ended since without a word
	LookNext rollout.GroupSeq   `json:"look_next,omitempty"` // where to go on looking

	LoadProbe *runstatus.LoadProbe `json:"load_probe,omitempty"` // under way

	Mark runstatus.Mark `json:"mark,omitzero"` // how far the buffer's account is known to have come
	// Spent lists the groups of lost batches that were formed again of others: none is ever given out again.
	Spent []rollout.GroupSeq `json:"spent,omitempty"`
	// Ended has the latest eras that repairs have ended. Repaired is the trainer generation that the latest repair
	// gave: a higher one belongs to a trainer that has announced itself since.
	Ended     []endedEra                `json:"ended,omitempty"`
	Repaired  rollout.TrainerGeneration `json:"repaired,omitempty"`
	Rollbacks int                       `json:"rollbacks,omitempty"`
	Rollback  *runstatus.Rollback       `json:"rollback,omitempty"` // the latest

	League League `json:"league,omitzero"` // where the spec has one

	// FleetHistory is of the Redis that held the fleet when it was last told what the run needs.
	FleetHistory string `json:"fleet_history,omitempty"`
}

// Group is one launched group, with the policy version that it was launched with.
type Group struct {
	Seq     rollout.GroupSeq      `json:"seq"`
	Version rollout.PolicyVersion `json:"version"`
	// Opponent is the player of the league that plays against it; empty: none does.
	Opponent string `json:"opponent,omitempty"`
}

// NewRun is a run before its first group.
func NewRun(spec runspec.Spec, now time.Time) *Run {
	return &Run{Spec: spec, State: runstatus.RunRunning, StartedAt: now, Failures: map[rollout.Code]int64{}}
}

// Status is the run at a glance.
func (r *Run) Status() runstatus.RunStatus {
	return runstatus.RunStatus{
		Spec: r.Spec, State: r.State, Reason: r.Reason, StartedAt: r.StartedAt, EndedAt: r.EndedAt,
		NextStep: rollout.Step(r.Completed), PolicyVersion: r.Version, Policies: slices.Clone(r.Policies),
		Launched: int64(r.NextSeq), Outstanding: int64(r.outstanding()), Failures: r.Failures,
		Throttle: r.throttle(), RewardVariance: r.Variance.summary(), LoadProbe: r.LoadProbe,
		Rollbacks: r.Rollbacks, Rollback: r.Rollback,
	}
}

// outstanding is how many groups are queued, in flight or ready.
func (r *Run) outstanding() int { return len(r.Playing) + len(r.Ready) }

// known is the outstanding groups, in no order.
func (r *Run) known() []rollout.GroupSeq { return slices.Concat(seqsOf(r.Playing), r.Ready) }

// plays reports whether a group's end is still outstanding.
func (r *Run) plays(seq rollout.GroupSeq) bool {
	return slices.ContainsFunc(r.Playing, func(g Group) bool { return g.Seq == seq })
}

// launch takes the next sequence number and counts the group as playing.
func (r *Run) launch() Group {
	g := Group{Seq: r.NextSeq, Version: r.Version, Opponent: r.drawOpponent(r.NextSeq)}
	r.NextSeq++
	r.Playing = append(r.Playing, g)
	r.need(g)
	return g
}

// leave moves a group out of play: to those that are ready, or with a code to those dropped. Hearing of the same end
// twice changes nothing.
func (r *Run) leave(seq rollout.GroupSeq, code rollout.Code) {
	i := slices.IndexFunc(r.Playing, func(g Group) bool { return g.Seq == seq })
	if i < 0 {
		return
	}
	r.Playing = slices.Delete(r.Playing, i, i+1)
	r.countFailing(code)
	if code != "" {
		delete(r.Versions, seq)
		r.Failures[code]++
		return
	}
	r.becomeReady(seq)
}

func (r *Run) becomeReady(seq rollout.GroupSeq) {
	at, _ := slices.BinarySearch(r.Ready, seq)
	r.Ready = slices.Insert(r.Ready, at, seq)
}

// Policy finds a version among those published, or nil. The pointer is good until the next publication.
func (r *Run) Policy(v rollout.PolicyVersion) *runstatus.Policy {
	i, found := slices.BinarySearchFunc(r.Policies, v, func(p runstatus.Policy, v rollout.PolicyVersion) int {
		return cmp.Compare(p.Version, v)
	})
	if !found {
		return nil
	}
	return &r.Policies[i]
}

// changeKey is the key of the event of the latest change.
func (r *Run) changeKey() string { return fmt.Sprintf("%s/change/%d", r.Spec.Name, r.Changes) }

func seqsOf(groups []Group) []rollout.GroupSeq {
	seqs := make([]rollout.GroupSeq, len(groups))
	for i, g := range groups {
		seqs[i] = g.Seq
	}
	return seqs
}
