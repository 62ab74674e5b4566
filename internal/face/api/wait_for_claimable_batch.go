package api

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
)

// Pauses between two looks at the store. Only the first of the claims that wait for one step looks so often; it wakes
// the others. While the server hears of changes, it looks when there is one, and now and then so that the store knows
// that its trainer waits. While it does not, it looks again and again: soon at first, for a batch that is about to be
// complete; the longest pause is then how late a batch may be noticed. A look is one small script in Redis.
const (
	firstPause  = 20 * time.Millisecond // and at least so much after the look before
	maxPause    = 100 * time.Millisecond
	behindPause = 5 * time.Second
	heardPause  = 5 * time.Second // well below what a trainer may be silent for and still be waiting
)

// rest is how long a poll waits if nothing wakes it; forever is the longest wait allowed.
func (s *Server) rest(poll *waiter, pause, forever time.Duration) time.Duration {
	first := s.waiters.first(poll)
	switch {
	case s.hears.Load() && first:
		return heardPause
	case s.hears.Load():
		return forever
	case first:
		return pause
	}
	return behindPause
}

// await claims until there is an answer other than "not ready", the wait is over, the client has gone or the server
// stops. done must be called when a batch is delivered: until then it has one of the places of batches that are in
// memory.
func (s *Server) await(ctx context.Context, a ask) (batch *buffer.RawBatch, done func(), err error) {
	now := s.deps.Now()
	poll := &waiter{run: a.run, step: a.step, generation: a.generation, since: now, deadline: now.Add(a.wait)}
	over := time.NewTimer(a.wait)
	defer over.Stop()
	listed, joined := false, false
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		looked := s.deps.Now()
		batch, done, err := s.look(ctx, a)
		if !rollout.Refused(err, rollout.NotReady) || a.wait <= 0 {
			if err == nil {
				s.waiters.wakeStep(a.run, a.step)
			}
			return batch, done, err
		}
		if !listed { // A batch that is ready costs no entry in the list.
			leave, refused := s.gates.enter(ctx, "waiting", a.run)
			if refused != nil {
				return nil, nil, refused
			}
			defer leave()
			s.waiters.add(poll)
			defer s.waiters.remove(poll)
			listed, joined = true, true
		}
		s.waiters.note(poll, strings.TrimSuffix(err.Error(), "; ask again"))
		rest := s.rest(poll, pause, a.wait)
		if joined && s.waiters.first(poll) { // a change between its look and its entry in the list woke no poll
			rest = firstPause
		}
		joined = false
		// Jitter spreads the looks of a trainer's ranks, which ask at the same time.
		look := time.NewTimer(rest + rand.N(rest/4))
		select {
		case <-look.C:
		case <-poll.wake:
			if s.hears.Load() { // changes come in swarms
				time.Sleep(firstPause - s.deps.Now().Sub(looked))
			}
		case <-over.C:
			return nil, nil, err
		case <-s.stopping.Done():
			return nil, nil, err
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		look.Stop()
	}
}

// look claims once.
func (s *Server) look(ctx context.Context, a ask) (*buffer.RawBatch, func(), error) {
	done, refused := s.gates.enter(ctx, "batches", a.run)
	if refused != nil {
		return nil, nil, refused
	}
	batch, err := s.deps.Store.ClaimRaw(ctx, a.run, a.step, a.generation, a.share)
	if err != nil {
		done()
		return nil, nil, s.missed(ctx, a.run, err)
	}
	return batch, done, nil
}
