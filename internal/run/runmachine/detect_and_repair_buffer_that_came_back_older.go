package runmachine

import (
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// keptGrants is how many of the latest batches a run remembers, and keptSeqs how many groups of them: a buffer that
// came back older by more lacks the rest for good.
const (
	keptGrants = 32
	keptSeqs   = 8192
)

// learn raises the known mark of the account. The mark of an era that a repair has ended does not concern the present
// account.
func (r *Run) learn(mark runstatus.Mark) {
	known := &r.Mark
	if mark.Era < known.Era {
		r.learnLate(mark)
		return
	}
	newer := mark.Era > known.Era || mark.Serial > known.Serial
	for _, g := range mark.Grants {
		old := known.Grant(g.Step)
		switch {
		case old == nil:
			known.Grants = append(known.Grants, g)
		case newer && old.Digest != g.Digest:
			r.spend(old.Seqs)
			*old = g
		}
	}
	slices.SortFunc(known.Grants, func(a, b runstatus.Grant) int { return int(a.Step - b.Step) })
	for seqs, i := 0, len(known.Grants)-1; i >= 0; i-- {
		if seqs += len(known.Grants[i].Seqs); seqs > keptSeqs || len(known.Grants)-i > keptGrants {
			known.Grants = slices.Clone(known.Grants[i+1:])
			break
		}
	}
	if !newer {
		return
	}
	grants, terms := known.Grants, known.Terms
	*known = mark
	known.Grants, known.Terms = grants, terms
	if mark.Generation > 0 && mark.Generation != r.Repaired {
		known.Begin(mark.Generation, mark.Completed)
	}
}

// keptEras is of how many eras that are over a run knows how far their accounts had come.
const keptEras = 8

// endedEra is the final mark of an era that a repair ended, including marks that arrived later, and whether a trainer
// had announced itself in it.
type endedEra struct {
	Era    int64 `json:"era"`
	Serial int64 `json:"serial"`
	Served bool  `json:"served,omitempty"`
}

// learnLate handles a mark from an ended era: a Redis master that was cut off goes on serving a server that does not
// know of its successor. As long as no trainer has announced itself in the next era, the late mark counts, and the
// account is repaired once more. If it cannot count, because a step has another batch by now, its groups are at least
// never trained on again, and its generations never given out again.
func (r *Run) learnLate(mark runstatus.Mark) {
	i := slices.IndexFunc(r.Ended, func(e endedEra) bool { return e.Era == mark.Era })
	if i < 0 || mark.Serial <= r.Ended[i].Serial {
		return
	}
	r.Ended[i].Serial = mark.Serial
	known, news := &r.Mark, false
	counts := known.Generation <= r.Repaired && !slices.ContainsFunc(r.Ended[i+1:], endedEra.served)
	began := counts && mark.Generation > known.LastTerm()
	for _, g := range mark.Grants {
		old := known.Grant(g.Step)
		switch {
		case old != nil && old.Digest == g.Digest:
			continue
		case old == nil && counts && g.Step >= known.Granted:
			known.Grants = append(known.Grants, g)
			known.Granted = g.Step + 1
		case old != nil && old.Lost && counts: // the trainer has gone back behind it
			r.spend(old.Seqs)
			*old = g
		default:
			r.spend(g.Seqs)
		}
		news = true
	}
	completed := min(mark.Completed, known.Granted)
	if counts && completed > known.Completed || began && completed < known.Completed {
		known.Completed, news = completed, true
	}
	if began {
		known.Begin(mark.Generation, completed)
	}
	if mark.Generation >= known.Generation {
		known.Generation, news = mark.Generation, true
		if counts {
			r.Repaired = mark.Generation // held by no trainer of the present account
		}
	}
	if news {
		known.Serial++ // the buffer's account is behind it
	}
}

func (e endedEra) served() bool { return e.Served }

// spend has groups never given out again.
func (r *Run) spend(seqs []rollout.GroupSeq) {
	r.Spent = append(r.Spent, seqs...)
	r.Spent = slices.Clone(r.Spent[max(0, len(r.Spent)-keptSeqs):])
}

// readAccount reads the buffer's account and compares it with the run's: one that is behind is repaired, and one whose
// Redis was restarted, failed over or restored since the latest comparison is confirmed, before the buffer gives out
// anything more. What the run hears while it asks is no part of the comparison. asked is the groups that were ready.
func (m *Machine) readAccount(asked []rollout.GroupSeq, take func(AccountRead)) {
	mark, claimed, version := m.Mark, max(int(m.Mark.Granted), m.Claimed), m.Version
	known, next := m.known(), m.NextSeq
	mark.Grants = slices.Clone(mark.Grants)
	since := rollout.Step(m.Claimed)
	if n := len(mark.Grants); n > 0 {
		since = mark.Grants[n-1].Step
	}
	ask(m, ReadAccount{Since: since, Mirrors: m.Mirrors}, func(r AccountRead) {
		a := r.Account
		switch {
		case r.Failed && !r.Forgotten:
			take(r)
		case r.Forgotten || a.Mark.Behind(mark) || a.Mark.Contradicts(mark) || a.Claimed < claimed || a.Version < version:
			m.repair(a, take)
		case !a.Confirmed || m.Mark.Era == 0:
			m.confirm(r, m.undone(a, asked), m.ended(a, known, next), take)
		default:
			m.learn(a.Mark)
			m.dropUndone(r, m.undone(a, asked), take)
		}
	})
}

// confirm lets the buffer go on with an account that is not behind. Groups that are undone or have ended, though the
// account has them still, are dropped.
func (m *Machine) confirm(r AccountRead, undone, ended []rollout.GroupSeq, take func(AccountRead)) {
	era, first := max(r.Account.Mark.Era, m.Mark.Era, 1), m.Mark.Era == 0
	ask(m, ConfirmBuffer{Era: era, ReplicationID: r.Account.ReplicationID}, func(done Done) {
		if done.Failed {
			m.retrySync = true
			take(r)
			return
		}
		r.Account.Mark.Era = era
		m.learn(r.Account.Mark)
		if !first {
			undone = append(undone, ended...)
		}
		if !first && len(undone) == 0 {
			m.Changes++
			m.note("confirmed the buffer's account: Redis was restarted or replaced, and nothing of the account is lost")
		}
		m.dropUndone(r, undone, take)
	})
}

// repair has nothing undone in a buffer that is behind.
func (m *Machine) repair(found Account, take func(AccountRead)) {
	m.Changes++
	m.Mirrors++
	task := RepairBuffer{
		Status: m.Status(), Era: max(found.Mark.Era, m.Mark.Era) + 1, Mark: m.Mark, NextGroup: m.NextSeq,
		Playing: m.unspent(seqsOf(m.Playing)), Ready: m.unspent(m.Ready), Key: m.changeKey(),
		Mirror: m.Mirrors,
	}
	task.Mark.Grants = slices.Clone(m.Mark.Grants)
	task.Mark.Granted = max(task.Mark.Granted, rollout.Step(m.Claimed))
	if m.Mark.Era == 0 { // no mark goes beyond the latest account
		task.Mark.Completed = max(task.Mark.Completed, rollout.Step(m.Completed))
	}
	task.Mark.Version = max(task.Mark.Version, m.Version)
	ask(m, task, func(r Repaired) {
		m.untold, m.idle = true, false
		if !r.Failed {
			m.Rollbacks++
			m.Rollback = &r.Rollback
			for i := range m.Mark.Grants {
				g := &m.Mark.Grants[i]
				g.Lost = g.Lost || slices.Contains(r.Rollback.LostBatches, g.Step)
			}
			heard := m.Mark
			m.Ended = append(m.Ended[max(0, len(m.Ended)-keptEras+1):], endedEra{
				heard.Era, heard.Serial, heard.Generation > m.Repaired,
			})
			m.Repaired = r.Account.Mark.Generation
			m.learn(r.Account.Mark)
			m.heardMeanwhile(task.Mark, heard)
		} else {
			m.retrySync = true
		}
		take(AccountRead{Account: r.Account, Failed: r.Failed})
	})
}

// heardMeanwhile keeps what was told of the account while it was repaired, which the repair did not know: it has the
// account repaired once more.
func (m *Machine) heardMeanwhile(asked, heard runstatus.Mark) {
	told := heard.Granted > asked.Granted || heard.Completed > asked.Completed || heard.Generation > asked.Generation
	back := heard.Completed < asked.Completed
	if !told && !back {
		return
	}
	m.Mark.Granted = max(m.Mark.Granted, heard.Granted)
	m.Mark.Completed = max(m.Mark.Completed, min(heard.Completed, m.Mark.Granted))
	if back {
		m.Mark.Completed = heard.Completed
	}
	m.Mark.Generation = max(m.Mark.Generation, heard.Generation)
	m.Mark.Serial++ // the buffer's account is behind it
	m.needsSync = true
}

// unspent is those of some groups that no batch has had.
func (r *Run) unspent(seqs []rollout.GroupSeq) []rollout.GroupSeq {
	return slices.DeleteFunc(slices.Clone(seqs), func(seq rollout.GroupSeq) bool {
		return slices.Contains(r.Spent, seq) || slices.ContainsFunc(r.Mark.Grants, func(g runstatus.Grant) bool {
			return slices.Contains(g.Seqs, seq)
		})
	})
}

// undone lists the groups that were ready when the account was asked for, and are in play again by its answer. Their
// workflows are over, so no one would finish them.
func (m *Machine) undone(a Account, asked []rollout.GroupSeq) []rollout.GroupSeq {
	var undone []rollout.GroupSeq
	for _, seq := range slices.Concat(a.Queued, a.InFlight) {
		if slices.Contains(asked, seq) && slices.Contains(m.Ready, seq) {
			undone = append(undone, seq)
		}
	}
	return undone
}

// ended lists the groups in play by the account that the run had already dropped when it asked: a Redis that came back
// older has them again. known is what the run had in play or ready then, and next what it would launch.
func (m *Machine) ended(a Account, known []rollout.GroupSeq, next rollout.GroupSeq) []rollout.GroupSeq {
	return slices.DeleteFunc(slices.Concat(a.Queued, a.InFlight), func(seq rollout.GroupSeq) bool {
		return seq >= next || slices.Contains(known, seq)
	})
}

// dropUndone drops groups that a Redis which came back older has undone, though nothing that trainers were told.
func (m *Machine) dropUndone(r AccountRead, undone []rollout.GroupSeq, take func(AccountRead)) {
	if len(undone) == 0 {
		take(r)
		return
	}
	ask(m, Release{Seqs: undone, Code: rollout.CodeLost}, func(released Released) {
		if !released.Failed {
			m.Changes++
			m.Rollbacks++
			m.Rollback = &runstatus.Rollback{
				At: m.now, Era: m.Mark.Era, Granted: m.Mark.Granted, FoundGranted: m.Mark.Granted,
				Completed: m.Mark.Completed, FoundCompleted: m.Mark.Completed, LostGroups: len(released.Seqs),
			}
			m.note(m.Rollback.String())
			r.Account.drop(released.Seqs)
		}
		m.needsSync = true
		take(r)
	})
}

// drop takes groups out of play.
func (a *Account) drop(seqs []rollout.GroupSeq) {
	dropped := func(seq rollout.GroupSeq) bool { return slices.Contains(seqs, seq) }
	a.Queued = slices.DeleteFunc(slices.Clone(a.Queued), dropped)
	a.InFlight = slices.DeleteFunc(slices.Clone(a.InFlight), dropped)
}
