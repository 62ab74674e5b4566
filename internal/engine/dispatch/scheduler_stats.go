package dispatch

import (
	"maps"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// counters count since the scheduler was made.
type counters struct {
	submitted, completed, redispatched int64
	rejected                           map[rollout.Code]int64
}

// Stats is a scheduler at one moment. Submitted = Completed + the sum of Rejected + Queued + InFlight.
type Stats struct {
	Submitted    int64
	Completed    int64 // answered, refusals included
	Rejected     map[rollout.Code]int64
	Redispatched int64 // tries after the first

	Queued   int
	InFlight int
	Engines  []EngineStats  // by id
	Breakers []BreakerStats // that are open, by engine and run
	Runs     []RunStats     // by name
}

// EngineStats is one engine as the scheduler sees it.
type EngineStats struct {
	ID       rollout.EngineID
	Breaker  string // closed, open, probing or half_open
	Draining bool
	InFlight int
	Limit    int                     // as told
	Window   int                     // what overload has left of it
	Load     int64                   // expected work in flight, in weighted tokens
	Runs     map[rollout.RunName]int // requests in flight by run
}

// BreakerStats is an open breaker.
type BreakerStats struct {
	Engine  rollout.EngineID
	Run     rollout.RunName // whose requests; empty: every run's
	Breaker string          // open, probing or half_open
	Reason  string
	Since   time.Time
	ProbeAt time.Time // zero: the probe is under way, or was answered
}

func (b *breaker) stats(e *engine, r *run) BreakerStats {
	st := BreakerStats{Engine: e.id, Run: nameOf(r), Breaker: breakerStates[b.state], Reason: b.why, Since: b.since}
	if b.state == open {
		st.ProbeAt = b.probeAt
	}
	return st
}

// breakers is the engine's open breakers: its own, and those for one run, by name.
func (s *Scheduler) breakers(e *engine) []BreakerStats {
	var open []BreakerStats
	if e.all.state != closed {
		open = append(open, e.all.stats(e, nil))
	}
	if len(e.standings) == 0 {
		return open
	}
	for _, r := range s.runs {
		if st := e.standingOf(r); st != nil && st.state != closed {
			open = append(open, st.stats(e, r))
		}
	}
	return open
}

func (e *engine) byRun() map[rollout.RunName]int {
	m := make(map[rollout.RunName]int, len(e.perRun))
	for r, n := range e.perRun {
		m[r.name] = n
	}
	return m
}

// RunStats is one run as the scheduler sees it.
type RunStats struct {
	Run      rollout.RunName
	Queued   int
	InFlight int
	Service  int64 // weighted tokens; only differences between runs mean something
}

// Stats is the scheduler's state; it shares nothing with it.
func (s *Scheduler) Stats() Stats {
	st := Stats{
		Submitted: s.count.submitted, Completed: s.count.completed,
		Rejected: maps.Clone(s.count.rejected), Redispatched: s.count.redispatched,
		Queued: s.queued, InFlight: len(s.held) - s.queued,
	}
	for _, e := range s.engines {
		st.Breakers = append(st.Breakers, s.breakers(e)...)
		st.Engines = append(st.Engines, EngineStats{
			ID: e.id, Breaker: breakerStates[e.all.state], Draining: e.draining,
			InFlight: len(e.inFlight), Limit: e.limit, Window: e.left(), Load: e.load, Runs: e.byRun(),
		})
	}
	for _, r := range s.runs {
		st.Runs = append(st.Runs, RunStats{Run: r.name, Queued: r.queued, InFlight: r.held - r.queued, Service: r.service})
	}
	return st
}
