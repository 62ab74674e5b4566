package supply

import (
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// match makes as many engines alive as are wanted. Engines that go because they were too many stay before others are
// started.
func (l *look) match() {
	alive := l.Count().Alive()
	for ; alive > l.Wanted; alive-- {
		l.giveBack()
	}
	for alive < l.Wanted && l.keep() {
		alive++
	}
	if l.failed || l.At.Before(l.RetryAt) || l.ListFault != "" {
		return
	}
	for ; alive < l.Wanted; alive++ {
		l.Started++
		l.Pool.Engines = append(l.Pool.Engines, Owned{Engine: Engine{ID: IDOf(l.Started),
			State: enginestate.EngineStarting, Since: l.At, StartedAt: l.At}})
	}
}

// giveBack lets one engine go: one that still starts, or else one that is out of order, and of those the newest.
func (l *look) giveBack() {
	var which *Owned
	rank := func(e *Owned) int {
		switch {
		case e.State == enginestate.EngineStarting && e.ServedAt.IsZero():
			return 3
		case e.State == enginestate.EngineStarting:
			return 2
		case !e.BrokenSince.IsZero():
			return 1
		}
		return 0
	}
	for i := range l.Pool.Engines {
		e := &l.Pool.Engines[i]
		alive := e.State == enginestate.EngineStarting || e.State == enginestate.EngineReady
		if alive && (which == nil || rank(e) >= rank(which)) {
			which = e
		}
	}
	if _, member := l.members[which.ID]; member || slices.Contains(l.UnderWay, which.ID) {
		l.to(which, enginestate.EngineDraining, TooMany, "")
		return
	}
	l.to(which, enginestate.EngineStopping, TooMany, "") // it was never sent a request
}

// keep lets one engine stay that was one too many, if there is one: the oldest.
func (l *look) keep() bool {
	for i := range l.Pool.Engines {
		e := &l.Pool.Engines[i]
		m, member := l.members[e.ID]
		if e.State == enginestate.EngineDraining && e.Cause == TooMany && member && !m.Leave &&
			m.State != enginestate.EngineLost {
			l.to(e, enginestate.EngineStarting, "", "")
			e.Stays = true
			return true
		}
	}
	return false
}

// command says what is to be done about an engine now, unless something is being done about it.
func (l *look) command(e *Owned) {
	if slices.Contains(l.UnderWay, e.ID) {
		return
	}
	m, member := l.members[e.ID]
	switch e.State {
	case enginestate.EngineStarting, enginestate.EngineReady:
		switch {
		case e.State == enginestate.EngineStarting && !e.Listed:
			if l.due(e) && !l.At.Before(l.RetryAt) {
				l.ask(e, DoStart)
			}
		case member && !sameURL(m.URL, e.Instance.URL):
			l.do(Command{Do: DoLeave, ID: e.ID}) // it is somewhere else now
		case e.Instance.State == enginestate.EngineRunning && e.Instance.URL != "" && (!member || e.Stays && m.Drain):
			l.do(Command{Do: DoJoin, ID: e.ID, URL: e.Instance.URL, MaxInFlight: e.Instance.MaxInFlight})
		}
	case enginestate.EngineDraining:
		if recall := l.recalls(e); member && (!m.Drain || recall && !m.Recalled) {
			l.do(Command{Do: DoDrain, ID: e.ID, Recall: recall})
		}
	case enginestate.EngineStopping:
		_, listed := l.listed[e.ID]
		switch {
		case (listed || !e.Done) && l.due(e):
			l.ask(e, DoStop)
		case e.Done && !listed && member && l.ListFault == "":
			l.do(Command{Do: DoLeave, ID: e.ID})
		}
	}
}

// due reports whether the provider may be asked about an engine now. An order that is accepted but never listed is
// repeated ever more rarely: each repetition may bring an engine that only the list leaves out.
func (l *look) due(e *Owned) bool {
	pause := askAgain
	if e.State == enginestate.EngineStarting {
		pause = min(askAgain<<min(max(0, e.Asked-1), 10), lastPause)
	}
	return e.AskedAt.IsZero() || l.At.Sub(e.AskedAt) >= pause
}

func (l *look) ask(e *Owned, what Action) {
	if what == DoStart && e.AskedAt.IsZero() { // the order before was refused
		e.StartedAt = l.At
	}
	e.AskedAt = l.At
	e.Asked++
	l.do(Command{Do: what, ID: e.ID})
}

func (l *look) do(c Command) { l.commands = append(l.commands, c) }

// strangers removes members that were not bought.
func (l *look) strangers() {
	if !l.Looked {
		return
	}
	for _, m := range l.Members {
		known := slices.ContainsFunc(l.Pool.Engines, func(e Owned) bool { return e.ID == m.ID })
		if !known && !m.Leave && !slices.Contains(l.UnderWay, m.ID) {
			l.do(Command{Do: DoLeave, ID: m.ID})
		}
	}
}

// sameURL compares addresses as the fleet does. One that is not known yet is no other one.
func sameURL(member, instance string) bool {
	plain := func(url string) string {
		return strings.TrimSuffix(strings.TrimRight(strings.ToLower(url), "/"), "/v1")
	}
	return instance == "" || plain(member) == plain(instance)
}

// How often is looked while something is under way: at first every second, and then the less often the longer it
// takes.
const (
	firstLook = time.Second
	lookShare = 30
)

// NextLook is when to look again: after window, or sooner while an engine comes or goes.
func (p *Pool) NextLook(now time.Time, wanted int, window time.Duration) time.Duration {
	var newest time.Time
	unsettled := p.Count().Alive() != wanted
	for i := range p.Engines {
		e := &p.Engines[i]
		if e.State != enginestate.EngineReady || !e.BrokenSince.IsZero() {
			unsettled = true
			if e.Since.After(newest) {
				newest = e.Since
			}
		}
	}
	if !unsettled {
		return window
	}
	wait := firstLook
	if !newest.IsZero() {
		wait = max(wait, now.Sub(newest)/lookShare)
	}
	if left := p.RetryAt.Sub(now); newest.IsZero() && left > 0 {
		wait = max(wait, left)
	}
	return min(wait, window)
}
