package runmachine

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// How often groups of earlier executions are searched for, and how many at a time. A group that is missing twice was
// ended from outside, such as with Temporal's own tools, and did not report it.
const (
	lookEvery = 10 * time.Second
	maxLook   = 256
)

// groupClosed handles a closed group that sent no end: it may have been ended from outside, and is looked for at once.
func (m *Machine) groupClosed(ev GroupClosed) {
	if !m.watched[ev.Seq] {
		return
	}
	delete(m.watched, ev.Seq)
	if m.plays(ev.Seq) && !ev.Foreign {
		m.Missing, m.suspects = append(m.Missing, ev.Seq), true
	}
}

// replaceVanished drops groups in play whose workflow is gone, so that others are launched in their place.
func (m *Machine) replaceVanished(next func()) {
	if !m.suspects && m.now.Sub(m.Looked) < lookEvery || len(m.Playing) == 0 {
		next()
		return
	}
	m.Looked, m.suspects = m.now, false
	seqs := m.toLookFor()
	if len(seqs) == 0 {
		next()
		return
	}
	before := m.Missing
	m.Missing = nil
	ask(m, LookFor{Seqs: seqs}, func(r Looked) {
		if r.Failed {
			m.Missing = append(before, m.Missing...)
			next()
			return
		}
		each(r.Gone, func(seq rollout.GroupSeq, next func()) {
			switch {
			case !m.plays(seq):
				next()
			case slices.Contains(before, seq):
				m.dropVanished(seq, next)
			default:
				m.Missing = append(m.Missing, seq)
				next()
			}
		}, next)
	})
}

// toLookFor is the groups to look for now: those missing before, and the next of those whose end this execution
// would not hear, in turn.
func (m *Machine) toLookFor() []rollout.GroupSeq {
	var seqs, later []rollout.GroupSeq
	for _, g := range m.Playing {
		switch {
		case slices.Contains(m.Missing, g.Seq):
			seqs = append(seqs, g.Seq)
		case !m.watched[g.Seq]:
			later = append(later, g.Seq)
		}
	}
	next, _ := slices.BinarySearch(later, m.LookNext)
	later = append(later[next:], later[:next]...)
	if len(later) > maxLook {
		later = later[:maxLook]
	}
	if len(later) > 0 {
		m.LookNext = later[len(later)-1] + 1
	}
	return append(seqs, later...)
}

// dropVanished takes a vanished group out of the account. One that was committed before it vanished counts as ready; if
// it has been claimed since, the next account says so.
func (m *Machine) dropVanished(seq rollout.GroupSeq, next func()) {
	ask(m, DropVanished{Seq: seq}, func(r Done) {
		code := rollout.CodeVanished
		if r.Failed {
			code = ""
		}
		m.leave(seq, code)
		m.needsSync, m.untold = true, true
		next()
	})
}
