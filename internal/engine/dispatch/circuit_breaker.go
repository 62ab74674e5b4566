package dispatch

import (
	"fmt"
	"time"
)

// breakerState is the scheduler's verdict on how an engine's requests end.
type breakerState uint8

const (
	closed   breakerState = iota
	open                  // no dispatch; a probe is due at probeAt
	probing               // no dispatch; a probe is under way
	halfOpen              // the probe succeeded; each run may try one request
)

var breakerStates = [...]string{closed: "closed", open: "open", probing: "probing", halfOpen: "half_open"}

// breaker stops dispatch to an engine: its own for every run, that of a standing for one run. Failures of one run's
// requests open that run's breaker. The engine's own breaker opens when runs fail one after the other, when the engine
// is silent, or when it fails a probe; for a run that it would serve, that costs only the probe.
type breaker struct {
	state      breakerState
	failures   int // in a row
	why        string
	since      time.Time // it opened
	silence    bool      // opened because nothing was heard; any sign of life refutes it
	dead       bool      // opened by a probe; only an answer or a probe refutes it
	probeAt    time.Time
	probeAfter time.Duration
}

// passes reports whether requests may go through.
func (b *breaker) passes() bool { return b.state == closed || b.state == halfOpen }

// trip opens a breaker, or opens it again, until a probe that is due after a pause.
func (s *Scheduler) trip(e *engine, r *run, b *breaker, why string, pause time.Duration) {
	first := b.state == closed
	b.state, b.failures, b.why = open, 0, why
	b.probeAfter, b.probeAt = pause, s.now.Add(pause)
	s.revision++
	if first {
		b.since = s.now
		s.do(Opened{Engine: e.id, Run: nameOf(r), Reason: why})
	}
}

// restore closes a breaker.
func (s *Scheduler) restore(e *engine, r *run, b *breaker) {
	if b.state == closed {
		return
	}
	*b = breaker{}
	s.revision++
	s.do(Closed{Engine: e.id, Run: nameOf(r)})
}

// longer is the pause before the next probe of a breaker that opens again.
func (b *breaker) longer(cfg *Config) time.Duration {
	return grow(b.probeAfter, cfg.ProbeAfter, cfg.MaxProbeAfter)
}

// fails handles a try without an answer, and opens the breakers that it speaks against. trial: it was the one request
// of a half-open engine.
func (s *Scheduler) fails(q *entry, e *engine, ev *TryEnded, trial bool) {
	silent := ev.Outcome == TimedOut && s.silent(e, q)
	if ev.Outcome == TimedOut && !silent && !s.slower(e, q) {
		return // its deadline was too short for an engine that lives
	}
	s.blame(q.run, e, trial, ev.Outcome == Broken, silent, reasonOf(ev))
	if ev.Outcome == TimedOut && !silent {
		return
	}
	own := &e.all
	own.failures++
	e.several = e.several || e.failing != nil && e.failing != q.run
	e.failing = q.run
	if own.state != closed || own.failures < s.cfg.SuspectAfter {
		return
	}
	// While others have requests under way there, these show whether the engine fails or only this run does.
	if silent || e.several || len(e.perRun) == 0 || len(e.perRun) == 1 && e.perRun[q.run] > 0 {
		s.trip(e, nil, own, fmt.Sprintf("%d requests in a row %s", own.failures, reasonOf(ev)), s.cfg.ProbeAfter)
		own.silence = silent
	}
}

// blame counts a failure of a run's request against its own use of an engine.
func (s *Scheduler) blame(r *run, e *engine, trial, atOnce, silent bool, reason string) {
	st := e.standing(r)
	st.failures++
	if !trial && (st.state != closed || !atOnce && st.failures < s.cfg.SuspectAfter) {
		return
	}
	why := fmt.Sprintf("%d requests in a row %s", st.failures, reason)
	if st.failures == 1 {
		why = "a request " + reason
	}
	s.trip(e, r, &st.breaker, why, st.longer(&s.cfg))
	st.silence = silent
}

// reasonOf says how a request failed, to follow "requests in a row".
func reasonOf(ev *TryEnded) string {
	switch {
	case ev.Outcome == TimedOut:
		return "got no answer"
	case ev.Code != "":
		return "failed (" + string(ev.Code) + ")"
	}
	return "failed"
}

// lives handles a sign of life of an engine: it clears the failures counted for every run, and every silence.
func (s *Scheduler) lives(e *engine) {
	e.lifeAt, e.askedAt = s.now, time.Time{}
	if len(e.inFlight) > 0 {
		e.askedAt = s.now
	}
	e.failing, e.several = nil, false
	if e.all.failures = 0; e.all.state != closed {
		s.restore(e, nil, &e.all)
	}
	if len(e.standings) == 0 || !e.anySilence() {
		return
	}
	for _, r := range s.runs { // in order, so that the same events bring the same commands
		if st := e.standingOf(r); st != nil && st.silence {
			s.restore(e, r, &st.breaker)
		}
	}
}

// anySilence reports whether the engine is closed to a run because nothing was heard.
func (e *engine) anySilence() bool {
	for _, st := range e.standings {
		if st.silence {
			return true
		}
	}
	return false
}

// heard takes in a sign of life that others saw. An engine that has failed a probe since must show it itself.
func (s *Scheduler) heard(e *engine, at time.Time) {
	news := !at.IsZero() && !e.heardLife.IsZero() && at.After(e.heardLife)
	if at.After(e.heardLife) {
		e.heardLife = at
	}
	if news && !e.all.dead {
		s.lives(e)
	}
}

// probeDue sends a probe when a breaker's is due. One answer serves every breaker of the engine.
func (s *Scheduler) probeDue(e *engine) {
	if e.draining {
		return
	}
	due := s.begins(&e.all)
	if e.all.state != open {
		for _, st := range e.standings {
			due = s.begins(&st.breaker) || due
		}
	}
	if due && !e.probed {
		e.probed = true
		s.do(Probe{e.id})
	}
}

// begins moves a breaker whose probe is due to probing, and reports whether it did.
func (s *Scheduler) begins(b *breaker) bool {
	if b.state != open || s.now.Before(b.probeAt) {
		return false
	}
	b.state = probing
	return true
}

func (s *Scheduler) engineProbed(ev *EngineProbed) {
	e := s.find(ev.ID)
	if e == nil || !e.probed {
		return
	}
	e.probed = false
	s.revision++
	if ev.OK {
		e.all.opensHalf()
		for _, st := range e.standings {
			st.opensHalf()
		}
		return
	}
	for r, st := range e.standings {
		if st.state == probing {
			s.trip(e, r, &st.breaker, st.why, st.longer(&s.cfg))
		}
	}
	s.trip(e, nil, &e.all, "it failed its health check", e.all.longer(&s.cfg))
	e.all.dead, e.all.silence = true, false
	s.abandon(e)
}

func (b *breaker) opensHalf() {
	if b.state == probing {
		b.state, b.dead = halfOpen, false
	}
}
