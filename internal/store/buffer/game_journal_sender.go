package buffer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// journalSender sends the records of many journals of a process in one round trip, because the round trip is most of a
// record's cost, here and in Redis. An answer waits a moment for others. A phase does not wait, and takes waiting
// answers along.
type journalSender struct {
	store *Store

	mu    sync.Mutex
	queue []*journal // with something to send
	armed bool       // a flush is scheduled
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

// flush sends the queue.
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

// take is the part of a journal to be sent next; nil while an earlier part is under way, whose end starts the next.
func (j *journal) take() *sending {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.current != nil || j.next == nil {
		return nil
	}
	j.current, j.next = j.next, nil
	return j.current
}

// send makes one round trip. If it is cut off, it is not known what has arrived.
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
	args := []any{s.of.attempt, phases, keptInSeconds, 2 * len(s.news)}
	for _, n := range s.news {
		args = append(args, n.Channel, n.Text)
	}
	return append(args, s.records...)
}

// sent handles the end of a sending. If its arrival is not known, the answers after it are dropped, because they may
// build on it. A phase is never dropped: it waits until nothing is under way.
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
