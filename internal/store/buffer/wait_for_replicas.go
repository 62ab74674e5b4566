package buffer

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// replicated waits until enough replicas have all that the run's account has, when its trainer is about to be told
// something that the run's workflow may not know yet. A refusal changes nothing: asked again, the same is answered.
func (s *Store) replicated(ctx context.Context, run rollout.RunName, mark knownMark) error {
	if s.waitReplicas <= 0 || mark.witnessed >= mark.Serial {
		return nil
	}
	node, err := s.nodeOf(ctx, run)
	if err != nil {
		return trouble("wait for replicas", err)
	}
	// Replicas take writes in order: the one before WAIT, on the same connection, comes after all that was written.
	wait := redis.NewIntCmd(ctx, "wait", s.waitReplicas, s.waitFor.Milliseconds())
	_, err = node.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, s.key(run, "run"), "replicated", mark.Serial)
		return p.Process(ctx, wait)
	})
	if err != nil {
		return trouble("wait for replicas", err)
	}
	if got := wait.Val(); got < int64(s.waitReplicas) {
		return rollout.Refuse(rollout.Unavailable, "%d of %d replicas of Redis have what was just written, after %v; it is "+
			"answered when they do: ask again", got, s.waitReplicas, s.waitFor)
	}
	return nil
}

// nodeOf is the node that has a run's account.
func (s *Store) nodeOf(ctx context.Context, run rollout.RunName) (redis.Cmdable, error) {
	if cluster, is := s.rdb.(*redis.ClusterClient); is {
		return cluster.MasterForKey(ctx, s.key(run, "run"))
	}
	return s.rdb, nil
}

// told notes what a trainer is about to be told, once enough replicas have it.
func (s *Store) told(ctx context.Context, run rollout.RunName, mark knownMark) error {
	if err := s.replicated(ctx, run, mark); err != nil {
		return fmt.Errorf("not answered yet: %w", err)
	}
	s.known.note(run, mark)
	return nil
}
