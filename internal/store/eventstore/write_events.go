package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// Bounds of the writer.
const (
	maxBatch     = 256
	writeTimeout = 5 * time.Second
	tellTimeout  = 2 * time.Second
	firstPause   = 100 * time.Millisecond // before a write that failed is tried again
	maxPause     = 5 * time.Second
)

// flag says how an event is written.
type flag string

const (
	once   flag = "fact"   // unless it was written just now
	anyOne flag = "sample" // any one may be lost
)

// entry is an event, encoded.
type entry struct {
	run  rollout.RunName
	flag flag
	kind string
	json []byte
}

// Tell writes a fact before it returns, or, while Redis does not answer, has it on the disk.
func (s *Store) Tell(ctx context.Context, e telemetry.Event) error {
	b, err := telemetry.Encode(e)
	if err != nil {
		return err
	}
	if !s.unavailable.Load() || s.spool == nil {
		ctx, cancel := context.WithTimeout(ctx, tellTimeout)
		err = s.append(ctx, e.Run, []entry{{e.Run, once, e.Kind(), b}})
		cancel()
		if err == nil {
			s.written.Add(1)
			return nil
		}
	}
	if s.spool == nil {
		return fmt.Errorf("tell of %s: %w", e.ID(), err)
	}
	if spooled := s.spool.Append([][]byte{b}, true); spooled != nil {
		return fmt.Errorf("tell of %s: %w", e.ID(), errors.Join(err, spooled))
	}
	s.wake()
	return nil
}

// Run writes events until ctx is done or Close is called, and then, for a bounded time, what is still queued. While
// Redis is unavailable it tries again and again; facts wait on the disk, and the latest samples in memory.
func (s *Store) Run(ctx context.Context) {
	s.writer <- struct{}{}
	defer func() { <-s.writer }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-s.closing:
			cancel(errClosed)
		case <-ctx.Done():
		}
	}()
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		s.takeFacts(ctx)
	}()
	rest := s.writeAll(ctx)
	<-taken
	s.flush(ctx, rest)
}

// wake has the writer look for events.
func (s *Store) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// takeFacts takes facts off the queue to where the writer finds them, without ever waiting for Redis.
func (s *Store) takeFacts(ctx context.Context) {
	for {
		select {
		case e := <-s.newFacts:
			s.keep(s.moreFacts(s.encode(nil, e)))
			s.wake()
		case <-ctx.Done():
			return
		}
	}
}

// moreFacts fills a batch with what is queued already.
func (s *Store) moreFacts(batch []entry) []entry {
	for len(batch) < maxBatch {
		select {
		case e := <-s.newFacts:
			batch = s.encode(batch, e)
		default:
			return batch
		}
	}
	return batch
}

// encode appends an event; one that JSON cannot say, such as a rate that is not a number, is lost.
func (s *Store) encode(batch []entry, e telemetry.Event) []entry {
	b, err := telemetry.Encode(e)
	if err != nil {
		if !e.Droppable() {
			s.pending.Add(-1)
		}
		s.lose(e.Droppable(), 1)
		return batch
	}
	how := once
	if e.Droppable() {
		how = anyOne
	}
	return append(batch, entry{e.Run, how, e.Kind(), b})
}

// keep puts facts on the disk, or, where that fails, in memory as long as there is room. What the disk has outlives the
// process; while Redis is unavailable, a power cut too.
func (s *Store) keep(batch []entry) {
	if len(batch) == 0 {
		return
	}
	err := errNoSpool
	if s.spool != nil {
		lines := make([][]byte, len(batch))
		for i, e := range batch {
			lines[i] = e.json
		}
		err = s.spool.Append(lines, s.unavailable.Load())
	}
	if err == nil {
		s.pending.Add(-int64(len(batch)))
		s.diskFault.Store(nil)
		return
	}
	if s.spool != nil {
		s.diskFault.Store(&err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fits := min(len(batch), max(0, s.Limits.Queue-len(s.held)))
	s.held = append(s.held, batch[:fits]...)
	s.pending.Add(int64(fits - len(batch)))
	s.lose(false, len(batch)-fits)
}

// batch is the next write: the oldest facts, and samples.
type batch struct {
	entries []entry
	done    func() // called when they are written
}

// next takes the waiting events; empty if there are none.
func (s *Store) next() batch {
	b := s.nextFacts()
	for range maxBatch {
		select {
		case e := <-s.newSamples:
			b.entries = s.encode(b.entries, e)
			continue
		default:
		}
		break
	}
	return b
}

// nextFacts is the oldest facts: those on the disk, then those in memory.
func (s *Store) nextFacts() batch {
	if s.spool != nil {
		lines, to, err := s.spool.Read(maxBatch)
		if err != nil {
			s.diskFault.Store(&err)
		}
		if len(lines) > 0 {
			b := batch{done: func() {
				if err := s.spool.Done(to); err != nil {
					s.diskFault.Store(&err)
				}
			}}
			for _, line := range lines {
				b.entries = s.spooled(b.entries, line)
			}
			return b
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(maxBatch, len(s.held))
	return batch{entries: append([]entry(nil), s.held[:n]...), done: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held = append([]entry(nil), s.held[n:]...)
		s.pending.Add(-int64(n))
	}}
}

// spooled appends a fact that waited on the disk. A corrupt line, from a broken disk, is skipped.
func (s *Store) spooled(entries []entry, line []byte) []entry {
	var head struct {
		Kind string          `json:"kind"`
		ID   string          `json:"event_id"`
		Run  rollout.RunName `json:"run_id"`
	}
	if err := json.Unmarshal(line, &head); err != nil || head.Kind == "" || head.ID == "" {
		s.lose(false, 1)
		return entries
	}
	return append(entries, entry{head.Run, once, head.Kind, line})
}

// writeAll writes what waits, as it comes, until ctx is done, and answers the batch that was not written then.
func (s *Store) writeAll(ctx context.Context) (rest batch) {
	pause := firstPause
	for ctx.Err() == nil {
		b := s.next()
		if len(b.entries) == 0 {
			if b.done != nil {
				b.done() // of lines that were none
			}
			select {
			case <-s.woken:
			case <-ctx.Done():
			}
			continue
		}
		for !s.write(ctx, &b) {
			if ctx.Err() != nil {
				return b
			}
			if !s.unavailable.Swap(true) && s.spool != nil {
				if err := s.spool.Sync(); err != nil {
					s.diskFault.Store(&err)
				}
			}
			_ = retry.Pause(ctx, pause) // the loop sees that ctx is done
			pause = min(2*pause, maxPause)
		}
		s.unavailable.Store(false)
		pause = firstPause
	}
	return rest
}

// unwritten counts the samples of an abandoned batch as lost; its facts stay queued.
func (s *Store) unwritten(b batch) {
	for _, e := range b.entries {
		if e.flag == anyOne {
			s.lose(true, 1)
		}
	}
}

// flush writes a batch and the queue once, and counts as lost what could not be written and is stored nowhere else.
func (s *Store) flush(ctx context.Context, b batch) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	for facts := s.moreFacts(nil); len(facts) > 0; facts = s.moreFacts(nil) {
		s.keep(facts)
	}
	if len(b.entries) == 0 {
		b = s.next()
	}
	for ; len(b.entries) > 0; b = s.next() {
		if s.write(ctx, &b) {
			continue
		}
		s.unwritten(b)
		s.mu.Lock()
		s.lose(false, len(s.held))
		s.pending.Add(-int64(len(s.held)))
		s.held = nil
		s.mu.Unlock()
		for range len(s.newSamples) {
			<-s.newSamples
			s.lose(true, 1)
		}
		return
	}
}

// write stores the batch, run by run, and reports whether all of it is stored. What is not stays in the batch. A write
// under way goes on when the caller's work ends: one that is cut off may be stored, and samples would be written again.
func (s *Store) write(ctx context.Context, b *batch) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	byRun := map[rollout.RunName][]entry{}
	for _, e := range b.entries {
		byRun[e.run] = append(byRun[e.run], e)
	}
	var rest []entry
	for run, entries := range byRun {
		err := s.append(ctx, run, entries)
		if refused(err) {
			entries, err = s.writeEach(ctx, run, entries)
		}
		if err != nil {
			rest = append(rest, entries...)
			continue
		}
		s.written.Add(int64(len(entries)))
	}
	if b.entries = rest; len(rest) > 0 {
		return false
	}
	if b.done != nil {
		b.done()
	}
	return true
}

// refused reports whether Redis has answered that it cannot do what it was asked, for what lies under the run's keys or
// for what an event says, and will answer so again. That it is out of memory, read-only or loading passes.
func refused(err error) bool {
	var answer redis.Error
	if !errors.As(err, &answer) || errors.Is(err, redis.Nil) {
		return false
	}
	text := answer.Error()
	for _, passes := range []string{"OOM", "READONLY", "LOADING", "MISCONF", "NOREPLICAS", "MASTERDOWN", "BUSY",
		"NOSCRIPT", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "NOAUTH", "NOPERM", "max number of clients"} {
		if strings.Contains(text, passes) {
			return false
		}
	}
	return strings.Contains(text, "WRONGTYPE") || strings.Contains(text, "user_script")
}

// writeEach writes events of one scope one by one, so that one which Redis refuses holds up no other, of this run or of
// another. What is refused is lost, and counted. It answers those that are written, or, with an error, those that are
// to be tried again.
func (s *Store) writeEach(ctx context.Context, run rollout.RunName, entries []entry) ([]entry, error) {
	var written []entry
	for i, e := range entries {
		err := s.append(ctx, run, entries[i:i+1])
		switch {
		case err == nil:
			written = append(written, e)
		case refused(err):
			s.lose(e.flag == anyOne, 1)
			err = fmt.Errorf("events of run %q: %w", run, err)
			s.refusal.Store(&err)
		default:
			s.written.Add(int64(len(written)))
			return entries[i:], err
		}
	}
	return written, nil
}

// append writes events of one scope, and notes the scope before and after. Before: a process killed after the write
// would leave events in a scope that is not looked at. After: the scope may have been found done, or erased as empty,
// during the write.
func (s *Store) append(ctx context.Context, run rollout.RunName, entries []entry) error {
	if err := NoteScope(ctx, s.rdb, s.prefix, run); err != nil {
		return err
	}
	args := make([]any, 0, 3*len(entries))
	for _, e := range entries {
		args = append(args, string(e.flag), e.kind, e.json)
	}
	if err := s.appendScript.Run(ctx, s.rdb, []string{s.keys(run).Recent()}, args...).Err(); err != nil {
		return err
	}
	return NoteScope(ctx, s.rdb, s.prefix, run)
}
