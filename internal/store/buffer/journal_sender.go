package buffer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// journalSender sends what the journals of a process have to send, of many games in one round trip: most of what a
// record costs, here and in Redis, is its way. An answer waits for others for a moment; a phase does not wait, and
// takes along what is there.
type journalSender struct {
	store *Store

	mu    sync.Mutex
	queue []*journal // with something to send
	armed bool       // somebody will look at the queue soon
}

const (
	answerWait    = 10 * time.Millisecond // that an answer waits for others
	sendAtOnce    = 128                   // journals in one round trip
	sendPatience  = 10 * time.Second      // bounds a round trip
	keptInSeconds = int(journalKept / time.Second)
)

// soon has a journal's records sent within answerWait.
func (s *journalSender) soon(j *journal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, j)
	if !s.armed {
		s.armed = true
		time.AfterFunc(answerWait, s.flush)
	}
}

// now has them sent at once, and all others' with them.
func (s *journalSender) now(j *journal) {
	s.mu.Lock()
	s.queue = append(s.queue, j)
	s.mu.Unlock()
	go s.flush()
}

// flush sends what there is to send.
func (s *journalSender) flush() {
	s.mu.Lock()
	queue := s.queue
	s.queue, s.armed = nil, false
	s.mu.Unlock()
	var batch []*sending
	for _, j := range queue {
		if one := j.take(); one != nil {
			batch = append(batch, one)
		}
		if len(batch) == sendAtOnce {
			s.send(batch)
			batch = nil
		}
	}
	if len(batch) > 0 {
		s.send(batch)
	}
}

// take is what a journal has to send, unless something is under way: then that is followed by it.
func (j *journal) take() *sending {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.current != nil || j.next == nil {
		return nil
	}
	j.current, j.next = j.next, nil
	return j.current
}

// send makes one round trip. That it is cut off tells nothing of what has arrived.
func (s *journalSender) send(batch []*sending) {
	ctx, cancel := context.WithTimeout(context.Background(), sendPatience)
	defer cancel()
	answers := make([]*redis.Cmd, len(batch))
	_, _ = s.store.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // each answer has its error
		for i, one := range batch {
			answers[i] = appendJournal.EvalSha(ctx, p, one.keys(), one.args()...)
		}
		return nil
	})
	for i, one := range batch {
		answer := answers[i]
		if redis.HasErrorPrefix(answer.Err(), "NOSCRIPT") {
			answer = appendJournal.Eval(ctx, s.store.rdb, one.keys(), one.args()...)
		}
		one.of.sent(one, answer)
	}
}

func (s *sending) keys() []string { return s.of.store.journalKeys(s.of.ref)[:1] }

func (s *sending) args() []any {
	phases := any("")
	if s.phases > 0 {
		phases = s.phases
	}
	return append([]any{s.of.attempt, phases, keptInSeconds}, s.records...)
}

// sent takes in how a sending has ended. When it is not known to have arrived, what was to follow it is dropped,
// because it may build on it: that is answers, for a phase waits until nothing is under way.
func (j *journal) sent(one *sending, answer *redis.Cmd) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.current = nil
	r, err := answer.Slice()
	switch why := reply(r).str(0); {
	case err != nil:
		one.err = trouble("append to journal", err)
	case why == "gone":
		one.err = errJournalGone
	case why != "ok":
		one.err = journalRefused(j.ref, j.attempt, r)
	}
	if one.err != nil {
		j.drop()
		j.writer.Forget()
		j.based = j.based && one.phases == 0 && !errors.Is(one.err, errJournalGone)
		j.note(one.err)
	}
	close(one.done)
	if j.next != nil {
		j.store.journals.soon(j)
	}
}
