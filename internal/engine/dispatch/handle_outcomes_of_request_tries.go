package dispatch

import (
	"cmp"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// tryEnded takes in how a try ended.
func (s *Scheduler) tryEnded(ev *TryEnded) {
	q := s.held[ev.ID]
	switch {
	case q == nil:
		return
	case q.engine == nil, q.tries != ev.Try:
		s.late(q, ev)
		return
	}
	e := q.engine
	st := e.standingOf(q.run)
	trial := st != nil && st.trial == q
	s.recall(q)
	switch ev.Outcome {
	case Served:
		s.answered(q, e, true)
		s.finish(q, ev)
	case Refused:
		s.charge(q)
		s.refused(q, e, trial)
	case Unfit:
		s.charge(q)
		s.reject(q, rollout.CodeRefused)
	case Overloaded:
		s.chargeTime(q)
		e.overloaded(q.run, s.now, q.sentAt, ev.RetryAfter, &s.cfg)
		s.enqueue(q)
	case Missing:
		s.chargeTime(q)
		e.standing(q.run).denies(q.Model, s.now, &s.cfg)
		s.revision++
		s.missing(q, e)
	case Aborted:
		s.chargeTime(q)
		e.standing(q.run).rest(s.now, 0, &s.cfg)
		s.again(q, e)
	case Failed, TimedOut, Broken:
		s.charge(q)
		s.fails(q, e, ev, trial)
		s.again(q, e)
	}
}

// late handles the end of an abandoned try. An answer still ends the request, wherever it is by now. It proves nothing
// about the engine, which may be another one under the same name.
func (s *Scheduler) late(q *entry, ev *TryEnded) {
	if ev.Outcome != Served || ev.Try < 1 || ev.Try > q.tries {
		return
	}
	s.withdraw(q)
	s.finish(q, ev)
}

// finish ends a request that was answered, and charges its run for what the answer was.
func (s *Scheduler) finish(q *entry, ev *TryEnded) {
	s.count.completed++
	q.PromptTokens = cmp.Or(ev.PromptTokens, q.PromptTokens)
	q.OutputTokens = cmp.Or(ev.OutputTokens, q.OutputTokens)
	q.run.service += q.run.cost(&q.Request)
	q.run.learn(ev.PromptTokens, ev.OutputTokens)
	answers := 1
	if n := s.answers.recall(q.Episode, &q.answered); n != nil {
		answers += n.value
	}
	s.answers.put(q.Episode, &q.answered, answers)
	s.drop(q)
}

// answered notes that an engine did its work for a run. Only an answer is a sign of life: a refusal may come from a
// front end whose engine hangs.
func (s *Scheduler) answered(q *entry, e *engine, served bool) {
	if served {
		s.lives(e)
		e.widen(s.now, &s.cfg)
		q.run.servedAt = s.now
		q.run.took.add(s.now.Sub(q.sentAt))
		s.price.add(q.cost, s.now.Sub(q.sentAt))
		if q.refusedBy != "" {
			s.accepted(q)
		}
	}
	st := e.standingOf(q.run)
	if st == nil {
		return
	}
	if st.failures = 0; st.state == halfOpen {
		s.restore(e, q.run, &st.breaker)
	}
	st.widen(e, s.now, &s.cfg)
	if served && st.missing[q.Model] != nil {
		delete(st.missing, q.Model)
		s.revision++
	}
	e.forgive(q.run, s.now)
}

// refused handles an engine's refusal of a request. Another engine that has the model is asked next. Only if that
// refuses it too, or there is none, the request is at fault.
func (s *Scheduler) refused(q *entry, e *engine, trial bool) {
	if q.refusedBy != "" || !s.second(q, e) {
		s.answered(q, e, false)
		s.reject(q, rollout.CodeRefused)
		return
	}
	if trial {
		s.blame(q.run, e, true, false, false, "was refused")
	}
	q.refusedBy = e.id
	s.enqueue(q)
}

// second reports whether the fleet has another engine for a request's model, now or soon.
func (s *Scheduler) second(q *entry, e *engine) bool {
	return slices.ContainsFunc(s.engines, func(o *engine) bool { return o != e && o.models[q.Model] && !o.draining })
}

// accepted holds a request against the engine that had refused it.
func (s *Scheduler) accepted(q *entry) {
	if e := s.find(q.refusedBy); e != nil {
		s.blame(q.run, e, false, false, false, "were refused, and accepted by another engine")
	}
}

// again queues a request whose try failed on e, unless it has failed too often.
func (s *Scheduler) again(q *entry, e *engine) {
	q.failures++
	q.avoid = e.id
	if q.failures >= s.cfg.MaxTries {
		s.reject(q, rollout.CodeExhausted)
		return
	}
	s.enqueue(q)
}

// missing queues a request whose model an engine does not have. That is no failure of the request, but it may not
// go on forever.
func (s *Scheduler) missing(q *entry, e *engine) {
	q.avoid = e.id
	if q.missing.IsZero() {
		q.missing = s.now
	}
	if s.now.Sub(q.missing) >= s.cfg.NoEngineTTL {
		s.reject(q, rollout.CodeNoEngine)
		return
	}
	s.enqueue(q)
}
