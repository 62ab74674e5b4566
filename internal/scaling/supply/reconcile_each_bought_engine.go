package supply

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// compare brings an engine into the phase that follows from what is seen of it.
func (l *look) compare(e *Owned) {
	m, member := l.members[e.ID]
	e.Member = member
	lives := l.instance(e, m)
	switch {
	case e.State == enginestate.EngineStopping:
		if member && !m.Drain && !l.leavesNow(e) && l.mayServe(e, m) {
			l.to(e, enginestate.EngineDraining, e.Cause, e.Reason) // an operator has it serve again
		}
	case !lives:
		l.died(e)
	case e.State == enginestate.EngineDraining:
		l.drained(e, m, member)
	default:
		l.alive(e, m, member)
	}
}

// instance applies the provider's entry for an engine, and reports whether it may be alive. An engine that answers the
// fleet is alive, even if a list leaves it out.
func (l *look) instance(e *Owned, m Member) bool {
	if l.ListFault != "" {
		return true
	}
	instance, listed := l.listed[e.ID]
	if listed {
		e.Instance, e.Listed, e.MissingSince = instance, true, time.Time{}
		if instance.State == enginestate.EngineRunning && e.RunsSince.IsZero() {
			e.RunsSince = l.At
		}
		return instance.State != enginestate.EngineFailed
	}
	if !e.Listed || answers(m) {
		e.MissingSince = time.Time{}
		return true
	}
	if e.MissingSince.IsZero() {
		e.MissingSince = l.At
	}
	return l.At.Sub(e.MissingSince) < missingFor
}

// answers reports whether an engine has answered the fleet of late.
func answers(m Member) bool {
	switch m.State {
	case enginestate.EngineReady, enginestate.EngineLoading, enginestate.EngineDraining, enginestate.EngineQuarantined:
		return true
	}
	return false
}

// died is for an engine that ended by itself: there is nothing to drain.
func (l *look) died(e *Owned) {
	reason := e.Instance.Reason
	switch {
	case !e.MissingSince.IsZero():
		reason = "is gone: its provider does not list it any more"
	case reason == "":
		reason = "ended by itself"
	}
	crashed := e.ServedAt.IsZero() || l.At.Sub(e.ServedAt) < crashedWithin
	if e.State != enginestate.EngineDraining && crashed {
		l.failed = true
		l.fault("%s did not come to serve: %s", e.ID, reason)
	}
	l.to(e, enginestate.EngineStopping, Broken, reason)
}

// alive is for an engine that starts or serves.
func (l *look) alive(e *Owned, m Member, member bool) {
	switch {
	case !e.Instance.LeavesAt.IsZero():
		l.to(e, enginestate.EngineDraining, Leaves, "its machine is taken away")
		return
	case e.Instance.State == enginestate.EngineStopping:
		l.to(e, enginestate.EngineDraining, Leaves, "somebody ends it")
		return
	case slices.Contains(l.Removed, e.ID) || m.Leave:
		l.to(e, enginestate.EngineDraining, Operator, "it was taken out of the fleet")
		return
	case m.Drain && !e.Stays:
		l.to(e, enginestate.EngineDraining, Operator, "it was drained by hand")
		e.DrainsAt = l.At
		return
	}
	e.Stays = e.Stays && m.Drain
	ready := member && m.State == enginestate.EngineReady
	switch {
	case ready && e.State == enginestate.EngineStarting:
		l.serves(e, m)
	case ready:
		e.BrokenSince, e.Reason = time.Time{}, ""
	case e.State == enginestate.EngineReady && (!member || m.outOfOrder()):
		l.broken(e, m, member)
	case e.State == enginestate.EngineStarting && e.Instance.State == enginestate.EngineRunning:
		l.comes(e, m, member)
	}
}

// comes is for an engine that runs, and is to come to serve.
func (l *look) comes(e *Owned, m Member, member bool) {
	since := e.RunsSince
	if e.Since.After(since) {
		since = e.Since
	}
	if e.Reason = ""; member && m.outOfOrder() {
		e.Reason = m.says()
	}
	runs, usual := l.At.Sub(since), 3*time.Duration(l.ColdStartSec()*float64(time.Second))
	switch {
	case runs > max(startFor, usual):
		l.failed = true
		l.fault("%s does not come to serve; %s", e.ID, cmp.Or(e.Reason, "the fleet waits for it"))
		l.to(e, enginestate.EngineDraining, Broken, strings.TrimSuffix("it did not come to serve; "+e.Reason, "; "))
	case runs > max(slowFor, usual):
		l.fault("%s runs for %s, and does not serve yet; %s", e.ID, runs.Round(time.Second),
			cmp.Or(e.Reason, "the fleet waits for it"))
	}
}

// outOfOrder reports whether the fleet sends an engine nothing for what it is.
func (m Member) outOfOrder() bool {
	return m.State == enginestate.EngineLost || m.State == enginestate.EngineQuarantined
}

// says is the fleet's description of an engine that is out of order.
func (m Member) says() string {
	return strings.TrimSuffix(fmt.Sprintf("the fleet says that it is %s: %s", m.State, m.Reason), ": ")
}

// serves is for an engine that begins to serve.
func (l *look) serves(e *Owned, m Member) {
	l.to(e, enginestate.EngineReady, "", "")
	if !e.ServedAt.IsZero() {
		return // it was to go, and stays
	}
	at := l.At
	if !m.Since.IsZero() && m.Since.After(e.StartedAt) && m.Since.Before(at) {
		at = m.Since
	}
	e.ServedAt = at
	l.Failures, l.RetryAt = 0, time.Time{}
	if sec := at.Sub(e.StartedAt).Seconds(); sec > 0 && !e.Adopted {
		l.ColdStarts = append(l.ColdStarts, sec)
		if n := len(l.ColdStarts); n > coldStartsKept {
			l.ColdStarts = slices.Clone(l.ColdStarts[n-coldStartsKept:])
		}
	}
}

// broken replaces an engine that has served and does not for too long. One that the fleet has forgotten is only to join
// again.
func (l *look) broken(e *Owned, m Member, member bool) {
	if !member {
		e.BrokenSince, e.Reason = time.Time{}, ""
		return
	}
	e.Reason = m.says()
	switch {
	case e.BrokenSince.IsZero():
		e.BrokenSince = l.At
	case l.At.Sub(e.BrokenSince) >= brokenFor:
		l.to(e, enginestate.EngineDraining, Broken, e.Reason)
	}
}

// drained brings an engine that drains to its end, when it has nothing in flight any more or its machine goes. An
// operator may end its drain at any time: then it is idle, or recalled, only from the next drain on.
func (l *look) drained(e *Owned, m Member, member bool) {
	back := member && !m.Drain && !m.Leave && !e.DrainsAt.IsZero()
	e.DrainsAt = since(e.DrainsAt, m.Drain, l.At)
	e.RecalledAt = since(e.RecalledAt, m.Recalled, l.At)
	switch {
	case slices.Contains(l.UnderWay, e.ID):
	case back && e.Cause == Operator:
		l.to(e, enginestate.EngineStarting, "", "") // an operator wants it back
	case !member, // it gets no requests
		m.State == enginestate.EngineLost,
		l.leavesNow(e),
		!e.DrainsAt.IsZero() && m.Idle && m.IdleAt.Sub(e.DrainsAt) >= drainNotice,
		!e.RecalledAt.IsZero() && l.At.Sub(e.RecalledAt) >= recallFor:
		l.to(e, enginestate.EngineStopping, e.Cause, e.Reason)
	}
}

// since is the time from which on something holds, and zero while it does not.
func since(first time.Time, holds bool, now time.Time) time.Time {
	switch {
	case !holds:
		return time.Time{}
	case first.IsZero():
		return now
	}
	return first
}

// mayServe reports whether an engine that was to be stopped may have requests: lists lag, so its answers count, too.
func (l *look) mayServe(e *Owned, m Member) bool {
	runs := l.listed[e.ID].State == enginestate.EngineRunning && m.State != enginestate.EngineLost
	return runs || m.State == enginestate.EngineReady
}

// leavesNow reports whether an engine's machine is taken away at this moment.
func (l *look) leavesNow(e *Owned) bool {
	return !e.Instance.LeavesAt.IsZero() && !l.At.Before(e.Instance.LeavesAt)
}

// recalls reports whether what a draining engine has is to be dispatched elsewhere: it has no time to finish.
func (l *look) recalls(e *Owned) bool {
	leaves := e.Instance.LeavesAt
	return e.Cause == Broken || l.At.Sub(e.Since) >= drainFor ||
		!leaves.IsZero() && l.At.After(leaves.Add(-leaveMargin)) || e.Instance.State == enginestate.EngineStopping
}
