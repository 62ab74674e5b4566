package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// Facts lists up to limit facts of a run after the one with id after, oldest first, of the given kinds, or of all if
// none is given. It reads those kinds only, so that the cost of a few rare kinds does not grow with the games played.
func (s *Store) Facts(ctx context.Context, run rollout.RunName, after string, limit int,
	kinds ...string) ([]Record, error) {
	from, err := Position(after)
	if err != nil {
		return nil, err
	}
	return s.facts(ctx, run, kinds, from, "+", limit)
}

// leastPortion is how many facts are read of each kind at a time, at least.
const leastPortion = 256

// facts merges the streams of some kinds, or of all, by id, from one id to another.
func (s *Store) facts(ctx context.Context, run rollout.RunName, kinds []string, from, to string,
	limit int) ([]Record, error) {
	parts, err := s.streams(ctx, run, kinds, from)
	if err != nil {
		return nil, err
	}
	portion := limit
	if len(parts) > 1 {
		portion = min(limit, max(leastPortion, limit/4))
	}
	var merged []Record
	for len(merged) < limit {
		if err := s.refill(ctx, run, parts, to, portion); err != nil {
			return nil, err
		}
		before := len(merged)
		if merged = merge(merged, parts, limit); len(merged) == before && !slices.ContainsFunc(parts, (*part).hungry) {
			break
		}
	}
	return merged, nil
}

// part is the stream of one kind, of several that are merged.
type part struct {
	kind  string
	from  string
	rows  []Record
	ended bool
}

// hungry reports whether more must be read of the part before it can be merged on.
func (p *part) hungry() bool { return len(p.rows) == 0 && !p.ended }

func (s *Store) streams(ctx context.Context, run rollout.RunName, kinds []string, from string) ([]*part, error) {
	if len(kinds) == 0 {
		var err error
		if kinds, err = s.rdb.SMembers(ctx, s.keys(run).Kinds()).Result(); err != nil {
			return nil, fmt.Errorf("read the kinds of facts: %w", err)
		}
	}
	parts := make([]*part, len(kinds))
	for i, kind := range kinds {
		parts[i] = &part{kind: kind, from: from}
	}
	return parts, nil
}

// refill reads on where a part has run out.
func (s *Store) refill(ctx context.Context, run rollout.RunName, parts []*part, to string, portion int) error {
	found := map[*part]*redis.XMessageSliceCmd{}
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, part := range parts {
			if part.hungry() {
				found[part] = p.XRangeN(ctx, s.keys(run).Facts(part.kind), part.from, to, int64(portion))
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read facts: %w", err)
	}
	for part, page := range found {
		for _, m := range page.Val() {
			part.from = "(" + m.ID
			part.rows = append(part.rows, record(run, part.kind, m))
		}
		part.ended = len(page.Val()) < portion
	}
	return nil
}

// merge moves rows to merged, by id, until there is enough or a part must be read on.
func merge(merged []Record, parts []*part, limit int) []Record {
	for len(merged) < limit && !slices.ContainsFunc(parts, (*part).hungry) {
		var next *part
		for _, p := range parts {
			if len(p.rows) > 0 && (next == nil || Earlier(p.rows[0].ID, next.rows[0].ID)) {
				next = p
			}
		}
		if next == nil {
			break
		}
		merged = append(merged, next.rows[0])
		next.rows = next.rows[1:]
	}
	return merged
}
