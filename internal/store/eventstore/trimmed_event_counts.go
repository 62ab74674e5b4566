package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// Gone counts events that were written and are not kept any more: the oldest facts of a kind, or, with an empty kind,
// the latest events of all kinds, which include samples.
type Gone struct {
	Kind   string `json:"kind,omitempty" doc:"Of facts. Without one: of the latest events of any kind, which hold the samples"`
	Events int64  `json:"events" doc:"0: some; Redis does not count them before version 7"`
}

// Gone counts a run's events that are not kept any more, by kind. The run "" is the fleet.
func (s *Store) Gone(ctx context.Context, run rollout.RunName) ([]Gone, error) {
	kinds, err := s.rdb.SMembers(ctx, s.keys(run).Kinds()).Result()
	if err != nil {
		return nil, fmt.Errorf("read the kinds of facts: %w", err)
	}
	slices.Sort(kinds)
	kinds = slices.Insert(kinds, 0, "")
	found := make([]*redis.XInfoStreamCmd, len(kinds))
	_, _ = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // each answer has its own error
		for i, kind := range kinds {
			key := s.keys(run).Recent()
			if kind != "" {
				key = s.keys(run).Facts(kind)
			}
			found[i] = p.XInfoStream(ctx, key)
		}
		return nil
	})
	var gone []Gone
	for i, kind := range kinds {
		info, err := found[i].Result()
		if err != nil && strings.Contains(err.Error(), "no such key") { // nothing was written
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("count the events that are not kept: %w", err)
		}
		bound := s.Limits.Recent
		if kind != "" {
			bound = s.Limits.Of(kind).Kept
		}
		switch {
		case info.EntriesAdded > info.Length:
			gone = append(gone, Gone{kind, info.EntriesAdded - info.Length})
		case info.EntriesAdded == 0 && info.Length >= bound:
			gone = append(gone, Gone{Kind: kind})
		}
	}
	return gone, nil
}
