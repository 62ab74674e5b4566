package axiom

import (
	"context"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry/store"
)

// batch is what is sent together: some events of every scope that has any, so that one run's events neither hold up
// another's nor are judged alone.
type batch struct {
	rows []row
	more bool // some scope has more
}

// scopeIDs is the events of one scope, oldest first.
type scopeIDs struct {
	name rollout.RunName
	ids  []string
}

func (b batch) scopes() []scopeIDs {
	var out []scopeIDs
	for _, r := range b.rows {
		if len(out) == 0 || out[len(out)-1].name != r.scope {
			out = append(out, scopeIDs{name: r.scope})
		}
		last := &out[len(out)-1]
		last.ids = append(last.ids, r.record.ID)
	}
	return out
}

// minShare is how many events of a scope are taken at least, even if there are many scopes.
const minShare = 32

// gather reads the next batch from the store, and how far behind the sink is.
func (s *Shipper) gather(ctx context.Context) (batch, error) {
	scopes, err := s.events.Scopes(ctx, Name)
	if err != nil {
		return batch{}, err
	}
	slices.Sort(scopes)
	if len(scopes) > 0 { // another one is first each time
		turn := s.sizes.turn % len(scopes)
		scopes = slices.Concat(scopes[turn:], scopes[:turn])
		s.sizes.turn++
	}
	b, maker, lag := batch{}, newRowMaker(), lagging{}
	bytes := 0
	for i, scope := range scopes {
		left := s.sizes.events() - len(b.rows)
		share := max(minShare, left/(len(scopes)-i))
		if bytes >= s.sizes.bytes {
			share = 0
		}
		records, behind, err := s.events.Unshipped(ctx, Name, scope, share)
		if err != nil {
			return batch{}, err
		}
		lag.add(behind)
		taken := 0
		for _, r := range records {
			if bytes >= s.sizes.bytes || len(b.rows) >= s.cfg.BatchCount {
				break
			}
			made := maker.row(scope, r)
			b.rows = append(b.rows, made)
			bytes += len(made.line) + 1
			taken++
		}
		b.more = b.more || int64(taken) < behind.Facts+behind.Samples
	}
	s.sizes.measured(len(b.rows), bytes)
	s.status.behind(lag)
	return b, nil
}

// lagging is how far behind a sink is, over all scopes.
type lagging struct{ store.Lag }

func (l *lagging) add(of store.Lag) {
	l.Facts += of.Facts
	l.Samples += of.Samples
	l.LostFacts += of.LostFacts
	l.LostSamples += of.LostSamples
	if !of.Oldest.IsZero() && (l.Oldest.IsZero() || of.Oldest.Before(l.Oldest)) {
		l.Oldest = of.Oldest
	}
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

func (b *batchSizes) learn(d *delivery) {
	if d.tooLarge > 0 {
		b.bytes, b.clean = max(min(minBytes, b.maxBytes), d.tooLarge/2), 0
		return
	}
	if b.clean++; b.clean >= cleanRuns {
		b.bytes, b.clean = min(b.maxBytes, 2*b.bytes), 0
	}
}
