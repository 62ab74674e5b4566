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
