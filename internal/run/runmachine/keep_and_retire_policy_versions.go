package runmachine

import (
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Which versions the engines must keep: a group needs the version that it was launched with, and all newer ones,
// until its games are played and the step that it is trained in is completed, for a trainer may still ask an engine
// about it. The account is part of the run, so that it survives crashes with it; fixed policies are not in it, because
// they are needed as long as the run is active.

// Hold keeps a version for claimed batches until so many steps are completed.
type Hold struct {
	Version rollout.PolicyVersion `json:"version"`
	Until   int                   `json:"until"`
}

// need records the version of a group that was launched.
func (r *Run) need(g Group) {
	if r.Versions == nil {
		r.Versions = map[rollout.GroupSeq]rollout.PolicyVersion{}
	}
	r.Versions[g.Seq] = g.Version
}

// hold replaces the need of a group that is no longer ready by a hold for the batches claimed so far, which may include
// it.
func (r *Run) hold(seq rollout.GroupSeq) {
	v, known := r.Versions[seq]
	if !known {
		return
	}
	delete(r.Versions, seq)
	if h := (Hold{v, r.Claimed}); !slices.Contains(r.Holds, h) {
		r.Holds = append(r.Holds, h)
	}
}

// unhold ends the holds of completed steps.
func (r *Run) unhold() {
	r.Holds = slices.DeleteFunc(r.Holds, func(h Hold) bool { return r.Completed >= h.Until })
}

// oldestNeeded is the oldest version that engines must keep. A trainer that makes its rollouts by itself has requests
// of versions up to its staleness, and of one more while it switches.
func (r *Run) oldestNeeded() rollout.PolicyVersion {
	oldest := r.Version
	if !r.Spec.Environment.Played() {
		oldest -= rollout.PolicyVersion(r.Spec.Buffer.MaxStaleness) + 1
	}
	for _, g := range r.Playing {
		oldest = min(oldest, g.Version)
	}
	//workflowcheck:ignore the least of all values does not depend on the order in which they come
	for _, v := range r.Versions {
		oldest = min(oldest, v)
	}
	for _, h := range r.Holds {
		oldest = min(oldest, h.Version)
	}
	return oldest
}

// oldestServing is the oldest version that a group launched by another execution may have.
func (r *Run) oldestServing() rollout.PolicyVersion {
	oldest := r.Version
	for _, p := range r.Policies {
		if p.State == runstatus.PolicyServing {
			oldest = min(oldest, p.Version)
		}
	}
	return oldest
}

// unneeded lists the served versions below a bound, but those that the league needs.
func (r *Run) unneeded(below rollout.PolicyVersion) []rollout.PolicyVersion {
	var out []rollout.PolicyVersion
	for _, p := range r.Policies {
		if p.State == runstatus.PolicyServing && p.Version < below && !r.opposes(p.Version) {
			out = append(out, p.Version)
		}
	}
	return out
}

// retireUnused lets engines unload the served versions that nothing needs.
func (m *Machine) retireUnused(next func()) {
	each(m.unneeded(m.oldestNeeded()), func(v rollout.PolicyVersion, next func()) {
		m.retire(v, func() {
			m.untold = true
			next()
		})
	}, next)
}

// retire lets engines unload a version. It is tried again later when that fails.
func (m *Machine) retire(v rollout.PolicyVersion, next func()) {
	p := m.Policy(v)
	if p == nil {
		next()
		return
	}
	ask(m, Retire{Adapter: p.Adapter}, func(r Done) {
		if p := m.Policy(v); p != nil && !r.Failed { // publications may have moved it meanwhile
			p.State = runstatus.PolicyRetired
		}
		next()
	})
}

// retireAll ends the loads of versions that are being published, and lets engines unload everything of the run.
func (m *Machine) retireAll(next func()) {
	versions := make([]rollout.PolicyVersion, len(m.Policies))
	for i, p := range m.Policies {
		versions[i] = p.Version
	}
	each(versions, func(v rollout.PolicyVersion, next func()) {
		m.stopLoading(v, func() {
			if p := m.Policy(v); p == nil || p.State != runstatus.PolicyServing {
				next()
				return
			}
			m.retire(v, next)
		})
	}, func() { m.retireFixed(next) })
}

func (m *Machine) retireFixed(next func()) {
	each(m.Spec.FixedAdapters(), func(p runspec.FixedPolicy, next func()) {
		m.do(Retire{Adapter: p.ServedAs(m.Spec.Name, m.Spec.Model)}, next)
	}, next)
}

// assertAdapters tells the fleet again what the run needs when the fleet's Redis has a new history since the last time:
// later changes may be lost, whatever became of the run's account.
func (m *Machine) assertAdapters(history string, next func()) {
	switch {
	case history == "" || history == m.FleetHistory || m.State.Over():
		next()
		return
	case m.FleetHistory == "" && len(m.Policies)+len(m.Spec.FixedAdapters()) == 0: // nothing was told
		m.FleetHistory = history
		next()
		return
	}
	ask(m, AssertAdapters{Status: m.Status()}, func(r Done) {
		if !r.Failed {
			m.FleetHistory = history
		}
		next()
	})
}
