package live

import (
	"maps"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
)

// Stats is a dispatcher at one moment, with what was counted since it was made.
type Stats struct {
	dispatch.Stats
	ByRun    map[rollout.RunName]Tally
	ByEngine map[rollout.EngineID]rollout.Usage // of good answers; ExecSec includes failed tries
}

// Tally counts the work done for one run.
type Tally struct {
	// Usage is of good answers; ExecSec includes failed tries.
	Usage rollout.Usage
	// Work is the Usage by its parts. Those that had no answer for forgetAfter are left out.
	Work map[rollout.UsagePart]rollout.Usage
}

// tally is a Tally in the making.
type tally struct {
	usage rollout.Usage
	work  map[rollout.UsagePart]*done
}

type done struct {
	usage rollout.Usage
	at    time.Time // of the latest answer
}

// forgetAfter is how long a run's version, or an engine's part in it, is remembered after its latest answer: longer
// than a turn lasts, so that what is forgotten is over.
const forgetAfter = 30 * time.Minute

// tally is what was counted of a run.
func (o *eventLoop) tally(run rollout.RunName) *tally {
	t := o.runs[run]
	if t == nil {
		t = &tally{work: map[rollout.UsagePart]*done{}}
		o.runs[run] = t
	}
	return t
}

// count adds to what an engine has done.
func (o *eventLoop) count(engine rollout.EngineID, u rollout.Usage) {
	o.engines[engine] = o.engines[engine].Add(u)
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

func (t *tally) freeze() Tally {
	work := make(map[rollout.UsagePart]rollout.Usage, len(t.work))
	for p, d := range t.work {
		work[p] = d.usage
	}
	return Tally{Usage: t.usage, Work: work}
}

func (o *eventLoop) stats() Stats {
	st := Stats{
		Stats:    o.scheduler.Stats(),
		ByRun:    make(map[rollout.RunName]Tally, len(o.runs)),
		ByEngine: maps.Clone(o.engines),
	}
	for name, t := range o.runs {
		st.ByRun[name] = t.freeze()
	}
	return st
}
