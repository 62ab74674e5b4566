package runmachine

import (
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// dropSurplus drops groups that a change of the run has made too many: those that are queued, the oldest first, for
// they would be the stalest. What is being played or is ready has cost the engines something and is used up by the
// steps to come; what is claimed is the trainer's.
func (m *Machine) dropSurplus(next func()) {
	room, _ := m.room()
	surplus := m.outstanding() - room
	if !m.mayBeSurplus || surplus <= 0 {
		m.mayBeSurplus = false
		next()
		return
	}
	m.mayBeSurplus = false
	var seqs []rollout.GroupSeq
	for _, seq := range m.queued {
		if len(seqs) < surplus && m.plays(seq) {
			seqs = append(seqs, seq)
		}
	}
	m.release(Release{Seqs: seqs, Code: rollout.CodeShrunk, OnlyQueued: true}, next)
}

// dropStale drops groups in play that will be too stale however they end, because every turn of theirs is made with
// the version that they were launched with.
func (m *Machine) dropStale(next func()) {
	if m.staleAt == m.Version || m.Spec.Buffer.OnStale != runspec.DropStale ||
		m.Spec.PolicyRefresh == runspec.RefreshTurn {
		next()
		return
	}
	m.staleAt = m.Version
	var seqs []rollout.GroupSeq
	for _, g := range m.Playing {
		if int64(m.Version-g.Version) > m.Spec.Buffer.MaxStaleness {
			seqs = append(seqs, g.Seq)
		}
	}
	m.release(Release{Seqs: seqs, Code: rollout.CodeStale}, next)
}

// release takes groups out of the account and cancels their games. Those that have moved on meanwhile stay: the buffer
// knows how far they are.
func (m *Machine) release(task Release, next func()) {
	if len(task.Seqs) == 0 {
		next()
		return
	}
	ask(m, task, func(r Released) {
		if r.Failed {
			next()
			return
		}
		m.cancelReleased(r.Seqs, task.Code, func() {
			m.untold = m.untold || len(r.Seqs) > 0
			m.needsSync = m.needsSync || !slices.Equal(r.Seqs, task.Seqs)
			next()
		})
	})
}

// cancelReleased takes those of the groups out of the account that are still in play, and cancels their games.
func (m *Machine) cancelReleased(seqs []rollout.GroupSeq, code rollout.Code, next func()) {
	seqs = slices.DeleteFunc(slices.Clone(seqs), func(seq rollout.GroupSeq) bool { return !m.plays(seq) })
	for _, seq := range seqs {
		m.leave(seq, code)
	}
	m.cancel(seqs, next)
}
