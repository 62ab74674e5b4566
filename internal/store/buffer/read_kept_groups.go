package buffer

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer/pack"
)

// Group reads a committed group; nil when it is not committed or not kept any more.
func (s *Store) Group(ctx context.Context, ref rollout.GroupRef) (*rollout.Group, error) {
	data, err := s.rdb.HGet(ctx, s.groupKey("group", ref), "data").Bytes()
	if err == redis.Nil {
		return nil, nil
	}
	if err != nil {
		return nil, trouble("read group", err)
	}
	g, err := pack.ReadGroup(data)
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", ref, err)
	}
	return g, nil
}

// EpisodeTurns is an episode with the turns that are kept of it: of its committed group, with advantages; as it was
// finished; or as far as it has come. Of one that is not kept the refusal says why.
func (s *Store) EpisodeTurns(ctx context.Context, ref rollout.EpisodeRef) (rollout.Episode, error) {
	group, err := s.Group(ctx, ref.GroupRef)
	if err != nil {
		return rollout.Episode{}, err
	}
	if group != nil {
		ep := rollout.Episode{Ref: ref}
		for _, t := range group.Trajectories {
			if t.Sample == ref.Sample {
				ep.Trajectories, ep.Truncated = append(ep.Trajectories, t), t.Truncated
			}
		}
		if len(ep.Trajectories) == 0 {
			return ep, s.noGame(ctx, ref)
		}
		return ep, nil
	}
	records, err := s.rdb.LRange(ctx, s.gameKey(ref, "journal"), 1, -1).Result()
	if err != nil {
		return rollout.Episode{}, trouble("read game", err)
	}
	kept, err := pack.ReadJournal(ref, records)
	if err != nil {
		return rollout.Episode{}, fmt.Errorf("journal of %s: %w", ref, err)
	}
	if kept.Finished != nil {
		return *kept.Finished, nil
	}
	cp, found, err := s.LoadCheckpoint(ctx, ref)
	if err != nil {
		return rollout.Episode{}, err
	}
	if !found {
		return rollout.Episode{}, s.noGame(ctx, ref)
	}
	return cp.Episode, nil
}
