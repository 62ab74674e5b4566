package axiom

import (
	"context"
	"encoding/json"
	"time"

	"github.com/millrace/millrace/internal/telemetry"
)

// line is one event as JSON.
type line []byte

// batch gathers lines up to the bounds of a request.
type batch struct {
	lines []line
	bytes int
	times map[int64]bool // in use, in nanoseconds
}

// gather is the next batch: what comes within the flush time of its first event, or until it is full. It is
// short or empty when ctx is done.
func (s *Shipper) gather(ctx context.Context) []line {
	b := &batch{times: map[int64]bool{}}
	var flush <-chan time.Time
	for !s.full(b) {
		select {
		case e := <-s.queue:
			s.add(b, e)
			if flush == nil {
				timer := time.NewTimer(s.cfg.Flush)
				defer timer.Stop()
				flush = timer.C
			}
		case <-flush:
			return b.lines
		case <-ctx.Done():
			return b.lines
		}
	}
	return b.lines
}

// queued is a batch of what is in the queue already.
func (s *Shipper) queued() []line {
	b := &batch{times: map[int64]bool{}}
	for !s.full(b) {
		select {
		case e := <-s.queue:
			s.add(b, e)
		default:
			return b.lines
		}
	}
	return b.lines
}

func (s *Shipper) full(b *batch) bool {
	return len(b.lines) >= s.cfg.BatchCount || b.bytes >= s.cfg.BatchBytes
}

// add appends an event. Axiom names a refused event by its time alone, so times are made unique within a batch. An
// event that JSON cannot say, such as a rate that is not a number, is rejected here.
func (s *Shipper) add(b *batch, e telemetry.Event) {
	for b.times[e.At.UnixNano()] {
		e.At = e.At.Add(time.Nanosecond)
	}
	b.times[e.At.UnixNano()] = true
	text, err := json.Marshal(telemetry.Flat(e))
	if err != nil {
		s.count(func(st *Stats) { st.Rejected++; st.LastError = err.Error() })
		return
	}
	b.lines = append(b.lines, text)
	b.bytes += len(text) + 1
}
