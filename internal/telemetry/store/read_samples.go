package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// Samples looks at up to limit of a run's latest events after the one with id after, and lists those of some kinds. It
// reads on at next; more says that it did not come to the end. Facts that are older than the samples that are kept are
// not looked at: a reader of samples pays for nothing else.
func (s *Store) Samples(ctx context.Context, run rollout.RunName, after string, limit int,
	kinds ...string) (found []Record, next string, more bool, err error) {
	from, err := position(after)
	if err != nil || limit <= 0 { // Redis answers nil to a count of 0
		return nil, after, false, err
	}
	page, err := s.rdb.XRangeN(ctx, s.recentKey(run), from, "+", int64(limit)).Result()
	if err != nil {
		return nil, after, false, fmt.Errorf("read samples: %w", err)
	}
	next = after
	for _, m := range page {
		next = m.ID
		if kind, _ := m.Values["kind"].(string); slices.Contains(kinds, kind) {
			found = append(found, record(run, "", m))
		}
	}
	return found, next, len(page) == limit, nil
}
