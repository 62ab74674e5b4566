package dispatch

import "cmp"

// settled takes in how a try ended.
func (s *Scheduler) settled(ev *Settled) {
	q := s.held[ev.ID]
	switch {
	case q == nil:
		return
	case q.engine == nil, q.tries != ev.Try:
		s.late(q, ev)
		return
	}
	e, b := q.engine, q.batch
	trial := e.trial == q
	b.answered(ev)
	s.recall(q)
	switch ev.Outcome {
	case Served, Refused:
		s.answered(q, e, ev.Outcome)
		s.finish(q, ev)
	case Overloaded:
		e.overloaded(s.now, q.sentAt, ev.RetryAfter, &s.cfg)
		s.enqueue(q)
	case Missing:
		e.denies(q.Model, s.now, &s.cfg)
		s.epoch++
		s.missing(q, e)
	case Aborted:
		e.rest(s.now, 0, &s.cfg)
		s.again(q, e)
	case Failed, Broken:
		// A call that fails is one failure, however many requests it carried.
		if b.failsFirst() && e.failed(s.now, trial, ev.Outcome == Broken, &s.cfg) {
			s.epoch++
		}
		s.again(q, e)
	case Split:
		s.answered(q, e, Refused)
		q.alone = true
		s.enqueue(q)
	}
}

// late takes in the end of a try that was abandoned. An answer all the same ends the request, wherever it is by now; it tells
// nothing of the engine, which may be another one under the same name.
func (s *Scheduler) late(q *entry, ev *Settled) {
	answer := ev.Outcome == Served || ev.Outcome == Refused
	if !answer || ev.Try < 1 || ev.Try > q.tries {
		return
	}
	s.withdraw(q)
	s.finish(q, ev)
}

// finish ends a request that was answered, and charges its run for what the answer was.
func (s *Scheduler) finish(q *entry, ev *Settled) {
	s.count.completed++
	if ev.Outcome == Served {
		q.PromptTokens = cmp.Or(ev.PromptTokens, q.PromptTokens)
		q.OutputTokens = cmp.Or(ev.OutputTokens, q.OutputTokens)
		q.run.service += q.run.cost(&q.Request)
		q.run.learn(ev.PromptTokens, ev.OutputTokens)
		s.answers.set(q.Episode, s.answers.of(q.Episode)+1)
	}
	s.drop(q)
}

// answered notes that an engine did its work: a considered refusal is a sign of life too.
func (s *Scheduler) answered(q *entry, e *engine, outcome Outcome) {
	doubted := e.condition != healthy
	if e.served(s.now, &s.cfg); doubted && e.condition == healthy {
		s.epoch++
	}
	if outcome == Served && e.missing[q.Model] != nil {
		delete(e.missing, q.Model)
		s.epoch++
	}
}

// again queues a request whose try failed on e, unless it has failed too often.
func (s *Scheduler) again(q *entry, e *engine) {
	q.failures++
	q.avoid = e.id
	if q.failures >= s.cfg.MaxTries {
		s.reject(q, Exhausted)
		return
	}
	s.enqueue(q)
}

// missing queues a request whose model an engine does not have. That is no failure of the request, but it may not
// go on for ever.
func (s *Scheduler) missing(q *entry, e *engine) {
	q.avoid = e.id
	if q.missing.IsZero() {
		q.missing = s.now
	}
	if s.now.Sub(q.missing) >= s.cfg.NoEngineTTL {
		s.reject(q, NoEngine)
		return
	}
	s.enqueue(q)
}
