package store

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
)

// Bounds of the writer.
const (
	maxBatch     = 256
	writeTimeout = 5 * time.Second
	firstPause   = 100 * time.Millisecond // before a write that failed is tried again
	maxPause     = 5 * time.Second
)

// appendBase and appendBody are the ends of the script that adds events to a scope. KEYS: recent. ARGV: for each
// event a flag, the kind and the JSON.
const (
	appendBase = "local base = string.sub(KEYS[1], 1, -7)\n"
	appendBody = `
for i = 1, #ARGV, 3 do
  if ARGV[i] == 'fact' then
    tell_once(ARGV[i+2])
  else
    write_event(ARGV[i] == 'sample' and 's' or 'f', ARGV[i+1], ARGV[i+2])
  end
end
return 1`
)

// flag says how an event is written.
type flag string

const (
	once   flag = "fact"   // unless it was written just now
	again  flag = "again"  // a fact that was written before, and is to be so once more
	anyOne flag = "sample" // of which any one may be lost
)

// entry is an event, encoded.
type entry struct {
	run  rollout.RunName
	flag flag
	kind string
	json []byte
}

// Tell writes a fact before it returns.
func (s *Store) Tell(ctx context.Context, e telemetry.Event) error {
	b, err := telemetry.Encode(e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return s.append(ctx, e.Run, []entry{{e.Run, once, e.Kind(), b}})
}

// Run writes events until ctx is done or Close is called, and then, for a bounded time, what is still queued. While
// Redis is unavailable it tries again and again, and the queue fills.
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
	for {
		batch := s.next(ctx)
		if batch == nil {
			break
		}
		if !s.writeUntil(ctx, batch) {
			s.flush(ctx, batch)
			return
		}
	}
	s.flush(ctx, nil)
}

// next is the events waiting, at least one; nil when ctx is done.
func (s *Store) next(ctx context.Context) []entry {
	for {
		select {
		case e := <-s.queue:
			if batch := s.more(s.encode(nil, e)); len(batch) > 0 {
				return batch
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// more fills a batch with what is queued already.
func (s *Store) more(batch []entry) []entry {
	for len(batch) < maxBatch {
		select {
		case e := <-s.queue:
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
		s.lost.Add(1)
		return batch
	}
	how := once
	if e.Droppable() {
		how = anyOne
	}
	return append(batch, entry{e.Run, how, e.Kind(), b})
}

// writeUntil writes the batch, however often it takes; false when ctx was done before.
func (s *Store) writeUntil(ctx context.Context, batch []entry) bool {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		var err error
		if batch, err = s.write(ctx, batch); err == nil {
			return true
		}
		retry := time.NewTimer(pause)
		select {
		case <-retry.C:
		case <-ctx.Done():
			retry.Stop()
			return false
		}
	}
}

// flush writes batch and the queue once, and counts what could not be written.
func (s *Store) flush(ctx context.Context, batch []entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	for batch = s.more(batch); len(batch) > 0; batch = s.more(nil) {
		rest, err := s.write(ctx, batch)
		if err != nil {
			s.lost.Add(int64(len(rest)))
		}
	}
}

// write stores the batch, run by run, and returns the events of the runs that were not stored.
func (s *Store) write(ctx context.Context, batch []entry) (rest []entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	byRun := map[rollout.RunName][]entry{}
	for _, e := range batch {
		byRun[e.run] = append(byRun[e.run], e)
	}
	for run, entries := range byRun {
		if e := s.append(ctx, run, entries); e != nil {
			rest, err = append(rest, entries...), e
			continue
		}
		s.written.Add(int64(len(entries)))
	}
	return rest, err
}

// append writes events of one scope, which is noted first: it may be one that nothing else knows of any more.
func (s *Store) append(ctx context.Context, run rollout.RunName, entries []entry) error {
	if run != "" {
		if err := s.rdb.SAdd(ctx, s.scopesKey(), string(run)).Err(); err != nil {
			return err
		}
	}
	args := make([]any, 0, 3*len(entries))
	for _, e := range entries {
		args = append(args, string(e.flag), e.kind, e.json)
	}
	return s.appendScript.Run(ctx, s.rdb, []string{s.recentKey(run)}, args...).Err()
}
