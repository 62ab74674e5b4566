package axiom

import (
	"context"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/store/eventstore/delivery"
)

// batch is sent together: some events of every scope that has any, so that one run's events neither hold up another's
// nor are judged alone.
type batch struct {
	rows     []row
	portions []delivery.Portion
	more     bool // some scope has more
}

// minShare is how many events of a scope are taken at least, even if there are many scopes.
const minShare = 32

// gather reads the next batch from the store.
func (s *Shipper) gather(ctx context.Context) (batch, error) {
	scopes, err := s.events.Scopes(ctx)
	if err != nil {
		return batch{}, err
	}
	slices.Sort(scopes)
	if len(scopes) > 0 { // another one is first each time
		turn := s.sizes.turn % len(scopes)
		scopes = slices.Concat(scopes[turn:], scopes[:turn])
		s.sizes.turn++
	}
	b, maker, bytes := batch{}, newRowMaker(), 0
	var oldest time.Time
	for i, scope := range scopes {
		left := s.sizes.events() - len(b.rows)
		p, err := s.events.Unshipped(ctx, scope, max(minShare, left/(len(scopes)-i)))
		if err != nil {
			return batch{}, err
		}
		if len(p.Records) > 0 {
			if at := p.Records[0].WrittenAt(); oldest.IsZero() || at.Before(oldest) {
				oldest = at
			}
		}
		taken := 0
		for _, r := range p.Records {
			if bytes >= s.sizes.bytes || len(b.rows) >= s.cfg.BatchCount {
				break
			}
			made := maker.row(scope, r)
			b.rows = append(b.rows, made)
			bytes += len(made.line) + 1
			taken++
		}
		if p.Records = p.Records[:taken]; taken > 0 {
			b.portions = append(b.portions, p)
		}
		b.more = b.more || p.More()
	}
	s.sizes.measured(len(b.rows), bytes)
	s.status.behind(oldest)
	return b, nil
}

// batchSizes is how much is read and sent at once: as much as the bounds allow, of events as large as the last ones
// were, and less after Axiom, or a proxy before it, found a request too large.
type batchSizes struct {
	maxCount, maxBytes int
	bytes              int
	mean               int // bytes of an event
	clean              int // batches since one was too large
	turn               int // which scope is first
}

const (
	minBytes   = 16 << 10
	cleanRuns  = 20 // batches that pass before more is tried
	minEvents  = 16
	typicalRow = 500
)

func newBatchSizes(cfg Config) batchSizes {
	return batchSizes{maxCount: cfg.BatchCount, maxBytes: cfg.BatchBytes, bytes: cfg.BatchBytes, mean: typicalRow}
}

// events is how many events to read.
func (b *batchSizes) events() int {
	return max(min(minEvents, b.maxCount), min(b.maxCount, b.bytes/b.mean+1))
}

func (b *batchSizes) measured(events, bytes int) {
	if events > 0 {
		b.mean = max(1, bytes/events)
	}
}

func (b *batchSizes) learn(d *batchDelivery) {
	if d.tooLarge > 0 {
		b.bytes, b.clean = max(min(minBytes, b.maxBytes), d.tooLarge/2), 0
		return
	}
	if b.clean++; b.clean >= cleanRuns {
		b.bytes, b.clean = min(b.maxBytes, 2*b.bytes), 0
	}
}
