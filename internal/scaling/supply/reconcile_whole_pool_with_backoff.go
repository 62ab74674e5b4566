package supply

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// Pool makes as many engines alive as are wanted, look by look.
type Pool struct{ State }

// New is the pool of a fleet without bought engines.
func New() *Pool { return &Pool{State{Version: StateVersion}} }

// Restore is the pool that left a state.
func Restore(s State) (*Pool, error) {
	if s.Version < 1 || s.Version > StateVersion {
		return nil, fmt.Errorf("engine pool: a state of version %d, and this is code for versions 1 to %d", s.Version,
			StateVersion)
	}
	s.Engines = slices.Clone(s.Engines)
	return &Pool{s}, nil
}

// How long is waited for what.
const (
	// askAgain is when an order without a visible effect is repeated. It is the same order: providers know it by its
	// id.
	askAgain = 10 * time.Second
	// missingFor is for how long a provider must not list an engine until it counts as gone: lists lag.
	missingFor = 10 * time.Second
	// drainNotice is how long a drain takes at least, so that every dispatcher has noticed it.
	drainNotice = 3 * time.Second
	// drainFor is how long an engine may take to finish its requests; then they are dispatched elsewhere. An engine
	// that may or may not be idle gets the same time.
	drainFor = 15 * time.Minute
	// recallFor is how long it takes until what an engine has is elsewhere.
	recallFor = 5 * time.Second
	// leaveMargin is how long before its machine goes an engine's requests are dispatched elsewhere.
	leaveMargin = 15 * time.Second
	// brokenFor is how long an engine that has served may be out of order before it is replaced.
	brokenFor = 2 * time.Minute
	// startFor is how long an engine that runs may take to serve, and slowFor how long until that is trouble; both are
	// longer where cold starts are.
	startFor = 30 * time.Minute
	slowFor  = 10 * time.Minute
	// crashedWithin is how long an engine must have served for its end not to count as a start that failed.
	crashedWithin = time.Minute
	// firstPause and lastPause bound the pause after starts that failed, which doubles.
	firstPause = 2 * time.Second
	lastPause  = 5 * time.Minute
	// troubleAfter is for how long a provider may leave an engine pending until that is trouble.
	troubleAfter = time.Minute
)

// look is the state while one Seen is handled.
type look struct {
	*Pool
	*Seen
	listed   map[rollout.EngineID]provider.Instance
	members  map[rollout.EngineID]Member
	failed   bool   // a start has
	trouble  string // of this look
	commands []Command
}

// Handle takes a look and returns the commands, at most one for each engine. Each may be carried out never, once or
// twice: the next look shows.
func (p *Pool) Handle(seen Seen) []Command {
	l := &look{Pool: p, Seen: &seen, listed: map[rollout.EngineID]provider.Instance{},
		members: map[rollout.EngineID]Member{}}
	for _, instance := range seen.Listed {
		l.listed[instance.ID] = instance
	}
	for _, m := range seen.Members {
		l.members[m.ID] = m
	}
	l.results()
	if seen.ListFault == "" {
		l.adopt()
		p.Looked = true
	}
	for i := range p.Engines {
		l.compare(&p.Engines[i])
	}
	p.Engines = slices.DeleteFunc(p.Engines, l.over)
	if p.Looked {
		l.match()
	}
	l.backOff()
	l.note()
	for i := range p.Engines {
		l.command(&p.Engines[i])
	}
	l.strangers()
	return l.commands
}

// results takes in what became of commands.
func (l *look) results() {
	for _, r := range l.Results {
		at := slices.IndexFunc(l.Engines, func(e Owned) bool { return e.ID == r.ID })
		if at < 0 {
			continue
		}
		e := &l.Engines[at]
		// The provider's error repeats what was being done.
		r.Fault = strings.TrimPrefix(r.Fault, fmt.Sprintf("%s engine %s: ", r.Do, r.ID))
		switch {
		case r.Fault != "":
			l.fault("%s %s: %s", r.Do, r.ID, r.Fault)
			if r.Do == DoStart && e.State == enginestate.EngineStarting {
				l.failed, e.AskedAt, e.Reason = true, time.Time{}, r.Fault
			}
		case r.Do == DoStart && e.State == enginestate.EngineStarting, r.Do == DoStop &&
			e.State == enginestate.EngineStopping:
			e.Done = true
		}
	}
	if l.ListFault != "" {
		l.fault("list engines: %s", strings.TrimPrefix(l.ListFault, "list engines: "))
	}
}

// fault records why the provider fails; the first reason is reported.
func (l *look) fault(format string, args ...any) {
	if l.trouble == "" {
		l.trouble = fmt.Sprintf(format, args...)
	}
}

// adopt handles engines that the provider lists and the pool does not know: at the first look they join the pool; later
// ones are stopped.
func (l *look) adopt() {
	for _, instance := range l.Listed {
		l.Started = max(l.Started, numberOf(instance.ID))
		known := slices.ContainsFunc(l.Engines, func(e Owned) bool { return e.ID == instance.ID })
		if known || instance.State == enginestate.EngineStopping {
			continue
		}
		e := Owned{Engine: Engine{ID: instance.ID, State: enginestate.EngineStarting, Since: l.At,
			StartedAt: instance.Since}, Listed: true, Adopted: true, Done: true}
		if e.StartedAt.IsZero() {
			e.StartedAt = l.At
		}
		if l.Looked {
			l.to(&e, enginestate.EngineDraining, Unknown, "the provider has it, and nobody has asked for it")
		}
		l.Engines = append(l.Engines, e)
	}
}

// to brings an engine into a phase.
func (l *look) to(e *Owned, state enginestate.EngineState, cause Cause, reason string) {
	if e.State != state {
		e.State, e.Since = state, l.At
		e.AskedAt, e.Asked, e.Done, e.DrainsAt, e.RecalledAt = time.Time{}, 0, false, time.Time{}, time.Time{}
	}
	e.Cause, e.Reason = cause, reason
}

// over reports whether an engine is no more: its provider has ended it, and the fleet does not have it.
func (l *look) over(e Owned) bool {
	_, listed := l.listed[e.ID]
	_, member := l.members[e.ID]
	ended := e.State == enginestate.EngineStopping && e.Done && l.ListFault == "" && !listed
	return ended && !member && !slices.Contains(l.UnderWay, e.ID)
}

// backOff waits for longer with every look in which starts failed.
func (l *look) backOff() {
	if !l.failed {
		return
	}
	l.RetryAt = l.At.Add(min(firstPause<<min(l.Failures, 10), lastPause))
	l.Failures++
}

// note keeps the trouble of this look. What was refused stays trouble until it was done, or is not asked for any more.
func (l *look) note() {
	for i := range l.Engines {
		e := &l.Engines[i]
		pending := e.Instance.State == enginestate.EngineOrdered && e.Instance.Reason != ""
		switch waited := l.At.Sub(e.StartedAt); {
		case e.State != enginestate.EngineStarting || waited <= troubleAfter:
		case pending:
			l.fault("%s does not run yet: %s", e.ID, e.Instance.Reason)
		case e.Done && !e.Listed && l.ListFault == "":
			l.fault("the provider took the order of %s %s ago and does not list it: see whether the engine is there, and why "+
				"it is left out", e.ID, waited.Round(time.Second))
		}
	}
	if n := l.Count(); n.Alive() == n.Ready && n.Ready == l.Wanted && !l.failed {
		l.Failures, l.RetryAt = 0, time.Time{}
	}
	waits := l.Failures > 0 && l.Count().Alive() > l.Count().Ready || l.At.Before(l.RetryAt) || len(l.UnderWay) > 0
	switch {
	case l.trouble != "" && l.Trouble == "":
		l.Trouble, l.TroubleSince = l.trouble, l.At
	case l.trouble != "":
		l.Trouble = l.trouble
	case !waits:
		l.Trouble, l.TroubleSince = "", time.Time{}
	}
}
