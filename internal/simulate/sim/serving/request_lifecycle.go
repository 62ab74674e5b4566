package serving

import (
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// request is one that is held, or the memory for one. It is used again, so that memory is bounded by what is held.
type request struct {
	Request
	id        dispatch.ID
	submitted time.Duration
	sent      time.Duration
	try       int
	engine    *engine // while in flight
	inside    bool    // the engine has it; otherwise it is on its way there or back
	outcome   dispatch.Outcome
	cached    int
	rejected  rollout.Code

	slot uint32
	// stamp changes with every try and every end: what the agenda holds of an earlier one is void.
	stamp   uint32
	timeout *virtualtime.Timer // of the try; nil until one is needed
}

func (f *Fleet) newRequest() *request {
	if n := len(f.spare); n > 0 {
		q := f.spare[n-1]
		f.spare = f.spare[:n-1]
		return q
	}
	q := &request{slot: uint32(len(f.slots))}
	f.slots = append(f.slots, q)
	return q
}

// forget ends the holding of a request.
func (f *Fleet) forget(q *request) {
	delete(f.requests, q.id)
	*q = request{slot: q.slot, stamp: q.stamp + 1, timeout: q.timeout}
	f.spare = append(f.spare, q)
}

// key names a request's present try on the agenda.
func (q *request) key() uint64 { return uint64(q.slot)<<32 | uint64(q.stamp) }

// byKey is the request whose try a key names; nil: that try is over.
func (f *Fleet) byKey(key uint64) *request {
	if q := f.slots[key>>32]; q.stamp == uint32(key) {
		return q
	}
	return nil
}

// send lets a request go to its engine: it begins a try.
func (f *Fleet) send(now time.Duration, c dispatch.Send) {
	q := f.requests[c.ID]
	q.engine, q.try, q.sent, q.inside = f.engines[c.Engine], c.Try, now, false
	q.stamp++
	q.engine.inFlight++
	f.totals.add(now, counts{queued: -1, inFlight: 1})
	if c.Try > 1 {
		f.totals.Redispatched++
	}
	if q.Timeout > 0 {
		if q.timeout == nil {
			q.timeout = f.agenda.Timer(ClassTimeout, (*timeoutHandler)(f), uint64(q.slot))
		}
		q.timeout.Set(now + q.Timeout)
	}
	f.agenda.At(now+f.before, ClassArrival, (*arrivalHandler)(f), q.key())
}

type arrivalHandler Fleet

// Happen brings a request to its engine.
func (h *arrivalHandler) Happen(now time.Duration, key uint64) {
	f := (*Fleet)(h)
	if q := f.byKey(key); q != nil {
		f.submit(now, q.engine, q)
	}
}

// answers sends what a try came to back to the dispatcher.
func (f *Fleet) answers(at time.Duration, q *request, outcome dispatch.Outcome) {
	q.inside, q.outcome = false, outcome
	f.agenda.At(at+f.after, ClassAnswer, (*answerHandler)(f), q.key())
}

type answerHandler Fleet

// Happen hands an answer to the scheduler, and then to the client.
func (h *answerHandler) Happen(now time.Duration, key uint64) {
	f := (*Fleet)(h)
	q := f.byKey(key)
	if q == nil {
		return
	}
	if q.rejected != "" {
		f.tellRejected(now, q)
		return
	}
	f.endTry(now, q, q.outcome)
}

// endTry tells the scheduler how a try ended, and the client of a request that it answers.
func (f *Fleet) endTry(now time.Duration, q *request, outcome dispatch.Outcome) {
	e := q.engine
	f.leave(now, q, counts{queued: 1, inFlight: -1})
	ev := dispatch.TryEnded{ID: q.id, Try: q.try, Outcome: outcome}
	if outcome != dispatch.Served {
		f.handle(ev) // sends it again, or rejects it
		f.forgetIfEmpty(e)
		return
	}
	ev.PromptTokens, ev.OutputTokens = q.Prompt, q.Output
	f.totals.add(now, counts{queued: -1})
	f.totals.Completed++
	f.totals.Input += int64(q.Prompt)
	f.totals.Cached += int64(q.cached)
	f.totals.Output += int64(q.Output)
	client, tag := q.Client, q.Tag
	answer := Answer{
		ID: q.id, Engine: e.id, Attempts: q.try, Submitted: q.submitted, Sent: q.sent, Ended: now,
		Prompt: q.Prompt, Output: q.Output, Cached: q.cached,
	}
	f.forget(q)
	f.handle(ev)
	f.forgetIfEmpty(e)
	client.Answered(now, tag, answer)
}

// leave takes a request off its engine.
func (f *Fleet) leave(now time.Duration, q *request, change counts) {
	q.engine.inFlight--
	q.engine = nil
	q.stamp++
	if q.timeout != nil {
		q.timeout.Stop()
	}
	f.totals.add(now, change)
}

// abandon takes a try back, wherever it is.
func (f *Fleet) abandon(now time.Duration, q *request) {
	e := q.engine
	f.stop(now, q)
	f.leave(now, q, counts{queued: 1, inFlight: -1})
	f.forgetIfEmpty(e)
}

// stop takes a request out of its engine, if it is there.
func (f *Fleet) stop(now time.Duration, q *request) {
	if e := q.engine; q.inside && !e.lost {
		q.inside = false
		e.model.Abort(now, uint64(q.id))
		f.collect(now, e)
	}
}

// reject ends a request that is not in flight. Its client hears of it at once, but not before the scheduler is done.
func (f *Fleet) reject(now time.Duration, q *request, reason rollout.Code) {
	f.totals.add(now, counts{queued: -1})
	if reason == rollout.CodeCancelled {
		f.totals.Cancelled++
		f.forget(q)
		return
	}
	f.totals.Rejected++
	q.rejected = reason
	f.agenda.At(now, ClassAnswer, (*answerHandler)(f), q.key())
}

func (f *Fleet) tellRejected(now time.Duration, q *request) {
	client, tag := q.Client, q.Tag
	answer := Answer{
		ID: q.id, Rejected: q.rejected, Attempts: q.try, Submitted: q.submitted, Sent: q.sent, Ended: now,
		Prompt: q.Prompt,
	}
	f.forget(q)
	if client != nil {
		client.Answered(now, tag, answer)
	}
}

type timeoutHandler Fleet

// Happen ends a try that takes too long.
func (h *timeoutHandler) Happen(now time.Duration, slot uint64) {
	f := (*Fleet)(h)
	q := f.slots[slot]
	if q.engine == nil {
		return
	}
	f.totals.TimedOut++
	f.stop(now, q)
	f.endTry(now, q, dispatch.TimedOut)
}
