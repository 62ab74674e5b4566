package store

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

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

// appendScript adds events to a run's stream, and facts, under the same ids, to its longer one. Of a run that was
// deleted nothing is kept. KEYS: recent, facts, mark of a deleted run. ARGV: their bounds, then for each event a
// flag, the kind and the JSON.
var appendScript = redis.NewScript(`
if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
for i = 3, #ARGV, 3 do
  local id = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'kind', ARGV[i+1], 'json', ARGV[i+2])
  if ARGV[i] == 'fact' then
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], id, 'kind', ARGV[i+1], 'json', ARGV[i+2])
  end
end
return 1`)

// entry is an event, encoded.
type entry struct {
	run  rollout.RunName
	flag string // fact or sample
	kind string
	json []byte
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
	flag := "fact"
	if e.Droppable() {
		flag = "sample"
	}
	return append(batch, entry{e.Run, flag, e.Kind(), b})
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

func (s *Store) append(ctx context.Context, run rollout.RunName, entries []entry) error {
	args := []any{s.limits.Recent, s.limits.Facts}
	for _, e := range entries {
		args = append(args, e.flag, e.kind, e.json)
	}
	return appendScript.Run(ctx, s.rdb, []string{s.recentKey(run), s.factsKey(run), s.goneKey(run)}, args...).Err()
}
