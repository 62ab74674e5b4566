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
	// Work is the Usage of a run by its parts. Those that had no answer for forgetAfter are left out.
	Work map[rollout.UsagePart]rollout.Usage
}

// tally is a Tally in the making.
type tally struct {
	usage  rollout.Usage
	groups started
	failed map[rollout.Code]int64
	work   map[rollout.UsagePart]*done
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
		work: map[rollout.UsagePart]*done{}}
}

// tallyOf is what was counted of one of some runs, or engines.
func tallyOf[K comparable](all map[K]*tally, of K) *tally {
	t := all[of]
	if t == nil {
		t = newTally()
		all[of] = t
	}
	return t
}

// does counts an answer that belongs to a part of the run's work.
func (t *tally) does(p rollout.UsagePart, u rollout.Usage, now time.Time) {
	t.usage = t.usage.Add(u)
	d := t.work[p]
	if d == nil {
		d = &done{}
		t.work[p] = d
	}
	d.usage, d.at = d.usage.Add(u), now
}

// forget drops the parts that have had no answer for long.
func (t *tally) forget(now time.Time) {
	maps.DeleteFunc(t.work, func(_ rollout.UsagePart, d *done) bool { return now.Sub(d.at) > forgetAfter })
}

func (t *tally) fails(err error, exec float64) {
	t.failed[cmp.Or(rollout.CodeOf(err), rollout.CodeOther)]++
	t.usage.ExecSec += exec
}

func (t *tally) freeze() Tally {
	work := make(map[rollout.UsagePart]rollout.Usage, len(t.work))
	for p, d := range t.work {
		work[p] = d.usage
	}
	return Tally{Usage: t.usage, Groups: t.groups.count, Failed: maps.Clone(t.failed), Work: work}
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
