package live

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
)

// Stats is a dispatcher at one moment, with what was counted since it was made.
type Stats struct {
	dispatch.Stats
	ByRun    map[rollout.RunName]Tally
	ByEngine map[rollout.EngineID]Tally
}

// Tally counts the work done for one run, or by one engine.
type Tally struct {
	// Usage is of good answers; ExecSec includes failed tries.
	Usage  rollout.Usage
	Groups int64                  // of a run: groups with a dispatched request
	Failed map[rollout.Code]int64 // tries that brought no answer, by code
	// Work is the Usage of a run by policy version, engine and model, in that order. Parts that had no answer for
	// forgetAfter are left out.
	Work []Work
}

// Work is what one engine did for one policy version of a run, under one model.
type Work struct {
	Version rollout.PolicyVersion
	Engine  rollout.EngineID
	Model   string // adapter or base model
	Usage   rollout.Usage
}

// tally is a Tally in the making.
type tally struct {
	usage  rollout.Usage
	groups started
	failed map[rollout.Code]int64
	work   map[part]*done
}

type part struct {
	version rollout.PolicyVersion
	engine  rollout.EngineID
	model   string
}

type done struct {
	usage rollout.Usage
	at    time.Time // of the latest answer
}

// forgetAfter is how long a run's version, or an engine's part in it, is remembered after its latest answer: longer
// than a turn lasts, so that what is forgotten is over.
const forgetAfter = 30 * time.Minute

// started counts the groups of a run with a dispatched request. It remembers only the newest: groups start nearly in
// order, so one that is older than all of these was counted long ago.
type started struct {
	count  int64
	floor  rollout.GroupSeq // all below are counted
	recent map[rollout.GroupSeq]bool
}

// maxStarted is several times as many groups as a run may have outstanding.
const maxStarted = 8192

func (s *started) add(g rollout.GroupSeq) {
	if g < s.floor || s.recent[g] {
		return
	}
	s.count++
	s.recent[g] = true
	if len(s.recent) < maxStarted {
		return
	}
	kept := slices.Sorted(maps.Keys(s.recent))
	s.floor = kept[len(kept)/2]
	maps.DeleteFunc(s.recent, func(g rollout.GroupSeq, _ bool) bool { return g < s.floor })
}

func newTally() *tally {
	return &tally{groups: started{recent: map[rollout.GroupSeq]bool{}}, failed: map[rollout.Code]int64{},
		work: map[part]*done{}}
}

func (o *eventLoop) run(name rollout.RunName) *tally {
	t := o.runs[name]
	if t == nil {
		t = newTally()
		o.runs[name] = t
	}
	return t
}

func (o *eventLoop) engine(id rollout.EngineID) *tally {
	t := o.engines[id]
	if t == nil {
		t = newTally()
		o.engines[id] = t
	}
	return t
}

func (t *tally) starts(g rollout.GroupSeq) { t.groups.add(g) }
func (t *tally) add(u rollout.Usage)       { t.usage = t.usage.Add(u) }

// does counts an answer that belongs to a part of the run's work.
func (t *tally) does(p part, u rollout.Usage, now time.Time) {
	t.add(u)
	d := t.work[p]
	if d == nil {
		d = &done{}
		t.work[p] = d
	}
	d.usage, d.at = d.usage.Add(u), now
}

// forget drops the parts that have had no answer for long.
func (t *tally) forget(now time.Time) {
	maps.DeleteFunc(t.work, func(_ part, d *done) bool { return now.Sub(d.at) > forgetAfter })
}

// parts is the work by version and engine.
func (t *tally) parts() []Work {
	var all []Work
	for p, d := range t.work {
		all = append(all, Work{p.version, p.engine, p.model, d.usage})
	}
	slices.SortFunc(all, func(a, b Work) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Engine, b.Engine), cmp.Compare(a.Model, b.Model))
	})
	return all
}

func (t *tally) fails(err error, exec float64) {
	t.failed[cmp.Or(rollout.CodeOf(err), rollout.CodeOther)]++
	t.usage.ExecSec += exec
}

func (t *tally) freeze() Tally {
	return Tally{Usage: t.usage, Groups: t.groups.count, Failed: maps.Clone(t.failed), Work: t.parts()}
}

func (o *eventLoop) stats() Stats {
	st := Stats{
		Stats:    o.scheduler.Stats(),
		ByRun:    make(map[rollout.RunName]Tally, len(o.runs)),
		ByEngine: make(map[rollout.EngineID]Tally, len(o.engines)),
	}
	for name, t := range o.runs {
		st.ByRun[name] = t.freeze()
	}
	for id, t := range o.engines {
		st.ByEngine[id] = t.freeze()
	}
	return st
}
