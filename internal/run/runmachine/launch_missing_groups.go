package runmachine

import (
	"time"

	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// room is how many groups may be queued, in flight or ready, and what keeps that below the depth, if anything does. It
// is the depth, but never more than the remaining steps can use, or than can be trained on while fresh after the next
// batch, or than fit. A batch always fits, so that a bound in bytes slows a run down and cannot stop it.
func (r *Run) room() (int, runstatus.Throttle) {
	if !r.Spec.Environment.Played() {
		return 0, ""
	}
	b := r.Spec.Buffer
	filled := r.Claimed - r.Refills
	room, why := min(b.Depth, r.Spec.Steps-filled)*b.GroupsPerStep, runstatus.Throttle("")
	if admitted := b.AdmittedSteps(filled-r.Completed) * b.GroupsPerStep; admitted < room {
		room, why = admitted, runstatus.ThrottleStaleness
	}
	if b.MaxBytes > 0 {
		if fitting := max(r.fitting(), b.GroupsPerStep); fitting < room {
			room, why = fitting, runstatus.ThrottleBytes
		}
	}
	return room, why
}

// fitting is how many groups the bound in bytes has room for: those that are ready, which are stored already, and as
// many more as fit beside everything stored if they come to the mean. Nothing is known before the first is stored.
func (r *Run) fitting() int {
	if r.GroupBytes <= 0 {
		return 0
	}
	return len(r.Ready) + int(max(0, r.Spec.Buffer.MaxBytes-r.Bytes)/r.GroupBytes)
}

// throttle is what keeps the run below its depth.
func (r *Run) throttle() runstatus.Throttle {
	if r.State != runstatus.RunRunning {
		return ""
	}
	if r.backoff() > 0 {
		return runstatus.ThrottleFailures
	}
	_, why := r.room()
	return why
}

// missing is how many groups there is room for and the run does not have.
func (m *Machine) missing() int {
	if m.State != runstatus.RunRunning {
		return 0
	}
	room, _ := m.room()
	return m.admitted(max(0, room-m.outstanding()))
}

// launchable is how many groups to launch now, and how long to wait until there may be more.
func (m *Machine) launchable() (groups int, wait time.Duration) {
	groups = m.missing()
	if groups == 0 {
		return 0, syncEvery
	}
	left, next := m.rounds.left(m.now, m.games())
	if until := m.rounds.began.Add(m.backoff()); until.After(m.now) {
		return 0, min(until.Sub(m.now), syncEvery)
	}
	return min(groups, left, max(0, maxChildren-len(m.watched))), max(next.Sub(m.now), time.Millisecond)
}

// launchMissing launches as many of the missing groups as this round has room for.
func (m *Machine) launchMissing(next func()) {
	n, _ := m.launchable()
	if n == 0 {
		next() // and a pause that is not over does not begin again
		return
	}
	began := m.now
	m.rounds.launched(began, n, m.games())
	groups := make([]Group, n)
	for i := range groups {
		groups[i] = m.launch()
		m.watched[groups[i].Seq] = true
	}
	m.do(Launch{Groups: groups}, func() {
		m.rounds.took(m.now.Sub(began), n)
		m.tellLaunches()
		next()
	})
}

// tellLaunches has readers told how far a launch of several rounds has come: every while, and when it is through.
func (m *Machine) tellLaunches() {
	going := m.missing() > 0
	told := m.launching && !going || going && m.now.Sub(m.told) >= syncEvery
	m.untold = m.untold || told
	m.launching = going
}
