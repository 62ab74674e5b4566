package dispatch

import (
	"maps"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// standing is one run's experience with an engine: failures, overload, models that the engine denies having. It bounds
// only that run, so that a run that is treated worse than others stops no other. It is kept while it is not empty.
type standing struct {
	breaker
	trial *entry // the one request that may try, while in flight

	// window is how many of the engine's places the run uses: cut by overload answers, widened by good ones; 0: all.
	window      int
	credit      int // good answers since the window last changed; negative after a cut
	cutAt       time.Time
	pausedUntil time.Time
	pause       time.Duration // the next pause after an overload

	missing map[string]*missingModel
}

// missingModel is a model that the engine denied having although it is listed.
type missingModel struct {
	until time.Time
	pause time.Duration
}

// standingOf is a run's standing; nil: there is nothing wrong.
func (e *engine) standingOf(r *run) *standing {
	if len(e.standings) == 0 {
		return nil
	}
	return e.standings[r]
}

// standing returns a run's standing, and creates it if need be.
func (e *engine) standing(r *run) *standing {
	st := e.standings[r]
	if st == nil {
		st = &standing{missing: map[string]*missingModel{}}
		e.standings[r] = st
	}
	return st
}

// forgive drops a standing in which there is nothing wrong any more.
func (e *engine) forgive(r *run, now time.Time) {
	st := e.standingOf(r)
	if st != nil && st.state == closed && st.failures == 0 && st.trial == nil && st.window == 0 &&
		st.pause == 0 && !now.Before(st.pausedUntil) && len(st.missing) == 0 {
		delete(e.standings, r)
	}
}

// forgetStandings drops what engines hold against a run that is over.
func (s *Scheduler) forgetStandings(r *run) {
	for _, e := range s.engines {
		if st := e.standingOf(r); st != nil {
			s.restore(e, r, &st.breaker)
			delete(e.standings, r)
		}
	}
}

// cutTo makes the run's window smaller, and keeps it so for a while.
func (st *standing) cutTo(window int, now time.Time) {
	st.window = max(1, window)
	st.credit = -holdRounds * st.window
	st.cutAt = now
}

// widen counts a good answer towards a wider window, which is an eighth wider for each window's worth of them.
func (st *standing) widen(e *engine, now time.Time, cfg *Config) {
	if st.window == 0 || st.window >= e.window {
		st.window, st.pause = 0, 0
		return
	}
	if e.sample.full(now, cfg) {
		return
	}
	if st.credit++; st.credit >= st.window {
		st.credit, st.pause = 0, 0
		st.window += max(1, st.window/8)
		if st.window >= e.window {
			st.window = 0
		}
	}
}

// rest pauses dispatch of the run's requests for as long as the engine says, or for longer each time.
func (st *standing) rest(now time.Time, asked time.Duration, cfg *Config) {
	st.pause = grow(st.pause, cfg.OverloadPause, cfg.MaxOverloadPause)
	pause := st.pause
	if asked > 0 {
		pause = min(asked, cfg.MaxOverloadPause)
	}
	st.pausedUntil = now.Add(pause)
}

// denies keeps the run's requests for a model away for a while, longer each time.
func (st *standing) denies(model string, now time.Time, cfg *Config) {
	m := st.missing[model]
	if m == nil {
		m = &missingModel{}
		st.missing[model] = m
	}
	if now.Before(m.until) {
		return
	}
	m.pause = grow(m.pause, cfg.MissingPause, cfg.MaxMissingPause)
	m.until = now.Add(m.pause)
}

// overloaded cuts the run's window and pauses its dispatch. Requests sent before the last cut tell nothing new.
func (e *engine) overloaded(r *run, now, sentAt time.Time, retryAfter time.Duration, cfg *Config) {
	st := e.standing(r)
	if !sentAt.After(st.cutAt) {
		return
	}
	window := e.window
	if st.window > 0 {
		window = min(window, st.window)
	}
	inUse := e.perRun[r] + 1 // the one that was turned away has left already
	st.cutTo(min(window, inUse)*3/4, now)
	st.rest(now, retryAfter, cfg)
}

// left is the part of the engine's window that overload has left, as far as runs use it.
func (e *engine) left() int {
	if len(e.standings) == 0 {
		return e.window
	}
	sum := 0
	for _, st := range e.standings {
		sum += st.window
	}
	for r := range e.perRun {
		if st := e.standingOf(r); st == nil || st.window == 0 {
			sum = e.window
		}
	}
	if sum == 0 {
		return e.window
	}
	return min(e.window, sum)
}

// keepModels forgets denials of models that the engine no longer lists.
func (e *engine) keepModels() {
	for _, st := range e.standings {
		maps.DeleteFunc(st.missing, func(m string, _ *missingModel) bool { return !e.models[m] })
	}
}

// grow doubles a pause from first up to most.
func grow(pause, first, most time.Duration) time.Duration {
	if pause == 0 {
		return first
	}
	return min(2*pause, most)
}

func nameOf(r *run) rollout.RunName {
	if r == nil {
		return ""
	}
	return r.name
}
