package runmachine

import (
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// older reports whether the run has told more than it knows: Temporal's database was restored, failed over or the
// workflow was reset, and the buffer knows better. What another life of the run's name told does not count, nor, but
// for versions, what was told in its place while it was taken for lost.
func (m *Machine) older(a Account) bool {
	told := a.Told
	if told == nil || a.Mirrors <= m.Mirrors || !told.StartedAt.Equal(m.StartedAt) {
		return false
	}
	return told.State != runstatus.RunLost || a.Version > m.Version && m.Policy(a.Version) == nil
}

// catchUp has the run go on from what it told last, as a run does whose workflow was lost. Publications that were under
// way in the older state have ended long ago; they are not concluded a second time.
func (m *Machine) catchUp(a Account) {
	was, told := *m.Run, a.Told
	lost := Lost{Spec: was.Spec, Status: *told, Account: a, Unheard: a.Unheard}
	*m.Run = *Resume(lost, m.now)
	if told.State != runstatus.RunLost {
		m.State, m.Reason, m.EndedAt = told.State, told.Reason, told.EndedAt
	}
	m.Mark, m.Spent, m.Ended, m.Repaired = was.Mark, was.Spent, was.Ended, was.Repaired
	m.learn(a.Mark)
	m.Looked, m.Variance = was.Looked, was.Variance
	for _, p := range m.publishing {
		p.outdated = true
	}
	clear(m.publishing)
	m.mayBeSurplus, m.staleAt = true, 0
	m.note(fmt.Sprintf("Temporal came back older: the run knew of version %d and step %d, and goes on from version %d "+
		"and step %d, as it had told before", was.Version, was.Completed, m.Version, m.Completed))
}

// newest is the newest version that the run knows of, whether it serves yet or not.
func (r *Run) newest() rollout.PolicyVersion {
	newest := r.Version
	for _, p := range r.Policies {
		newest = max(newest, p.Version)
	}
	return newest
}

// endOutdated answers a publication that was begun in an older state of the run.
func (m *Machine) endOutdated(p *publication) {
	m.answer(runstatus.Policy{}, rollout.Refuse(rollout.Unavailable, "run %s has caught up with its account since "+
		"version %d was published; publish it again", m.Spec.Name, p.adapter.Version))
}
