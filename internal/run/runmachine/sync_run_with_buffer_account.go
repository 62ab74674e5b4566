package runmachine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Account is the buffer's account of a run. It decides what is ready, claimed and completed.
type Account struct {
	Highest   rollout.GroupSeq // highest group number heard of; -1: none
	Queued    []rollout.GroupSeq
	InFlight  []rollout.GroupSeq
	Ready     []rollout.GroupSeq
	Claimed   int // steps
	Completed int // steps
	Refills   int // claimed steps that are to get another batch, of other groups
	Version   rollout.PolicyVersion

	Bytes      int64 // stored
	GroupBytes int64 // of these, a group's mean; 0: nothing is known

	Mark          runstatus.Mark // with the batches that were asked for
	Confirmed     bool           // under the replication id that Redis has now
	ReplicationID string
	FleetHistory  string // of the Redis that holds the fleet; empty: not known
	Mirrors       int64  // highest number of what readers were told
	// Told is that, where the run does not know of it, and Unheard the launches of which the buffer has not heard then.
	Told    *runstatus.RunStatus
	Unheard []rollout.GroupSeq
}

// sync corrects the run's account by the buffer's. A buffer that has forgotten the run is told its progress; while the
// buffer does not answer, the run goes by its own account.
func (m *Machine) sync(next func()) {
	if !m.needsSync {
		next()
		return
	}
	m.needsSync = false
	asked, known := slices.Clone(m.Ready), m.known()
	m.readAccount(asked, func(r AccountRead) {
		if r.Failed {
			next()
			return
		}
		m.take(r.Account, asked, known)
		m.assertAdapters(r.Account.FleetHistory, next)
	})
}

// take takes over the buffer's account. What differs though nothing was heard of it is reported: a notification was
// lost.
func (m *Machine) take(a Account, asked, known []rollout.GroupSeq) {
	if m.older(a) {
		m.catchUp(a)
	} else if m.idle {
		if difference := m.difference(a); difference != "" {
			m.Changes++
			m.note("corrected its account by the buffer's: " + difference)
		}
	}
	if a.Mirrors > m.Mirrors { // the run was taken for lost: what it told since came late
		m.Mirrors, m.untold = a.Mirrors, true
	}
	before := m.Completed
	m.adopt(a, nil, known)
	m.correct(a, asked)
	m.queued = a.Queued
	m.untold = m.untold || m.Completed != before || m.idle && m.throttle() != m.throttled
}

// correct replaces the account by the buffer's. It repairs lost notifications; a repeated one changes nothing. Groups
// that the buffer does not know yet, because they were just launched, stay in play. asked is what was ready when the
// buffer was asked: a group that became ready since may be missing in its answer and is kept.
func (r *Run) correct(a Account, asked []rollout.GroupSeq) {
	for _, seq := range a.Ready {
		r.leave(seq, "")
	}
	r.Claimed, r.Completed, r.Refills = a.Claimed, a.Completed, a.Refills
	r.Bytes, r.GroupBytes = a.Bytes, a.GroupBytes
	r.Ready = slices.DeleteFunc(r.Ready, func(seq rollout.GroupSeq) bool {
		gone := slices.Contains(asked, seq) && !slices.Contains(a.Ready, seq)
		if gone {
			r.hold(seq)
		}
		return gone
	})
	r.unhold()
	r.NextSeq = max(r.NextSeq, a.Highest+1) // behind only after a reset to an older history
}

// difference is how a buffer's account differs from the run's; empty when it does not.
func (r *Run) difference(a Account) string {
	var parts []string
	count := func(what string, seqs []rollout.GroupSeq, in func(rollout.GroupSeq) bool) {
		n := 0
		for _, seq := range seqs {
			if in(seq) {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d groups %s", n, what))
		}
	}
	count("ready that were thought in play", a.Ready, r.plays)
	count("gone that were thought ready", r.Ready, func(seq rollout.GroupSeq) bool {
		return !slices.Contains(a.Ready, seq)
	})
	if a.Claimed != r.Claimed {
		parts = append(parts, fmt.Sprintf("%d steps claimed, not %d", a.Claimed, r.Claimed))
	}
	if a.Completed != r.Completed {
		parts = append(parts, fmt.Sprintf("%d steps completed, not %d", a.Completed, r.Completed))
	}
	return strings.Join(parts, ", ")
}

// adopt counts outstanding groups of the account that the run does not know: an execution that was lost, or reset to an
// earlier point, launched them. unheard are launches that the buffer has not heard of. known is what the run knew when
// it asked: groups that ended since were its own. The versions of adopted groups are not known; they are taken for the
// oldest that serves.
func (r *Run) adopt(a Account, unheard, known []rollout.GroupSeq) {
	oldest := r.oldestServing()
	own := map[rollout.GroupSeq]bool{}
	for _, seq := range slices.Concat(known, r.known()) {
		own[seq] = true
	}
	foreign := func(seq rollout.GroupSeq) bool {
		if own[seq] {
			return false
		}
		r.need(Group{Seq: seq, Version: oldest})
		return true
	}
	for _, seq := range slices.Concat(a.Queued, a.InFlight, unheard) {
		if foreign(seq) {
			bySeq := func(g Group, seq rollout.GroupSeq) int { return cmp.Compare(g.Seq, seq) }
			at, _ := slices.BinarySearchFunc(r.Playing, seq, bySeq)
			r.Playing = slices.Insert(r.Playing, at, Group{Seq: seq, Version: oldest})
		}
	}
	for _, seq := range a.Ready {
		if foreign(seq) {
			r.becomeReady(seq)
		}
	}
}
