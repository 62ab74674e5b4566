package buffer

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	store "github.com/millrace/millrace/internal/store/eventstore"
)

// The index of runs and the lives of names lie on hash slots of their own. In a Cluster their node may come back older
// while the nodes of the runs do not, and no run's account would show it. So each run keeps itself listed, and a
// listing of runs looks for entries that should not be there.

// KeepListed lists a run that goes on as one, where the index has forgotten it. Its caller drives the run.
func (s *Store) KeepListed(ctx context.Context, run rollout.RunName) error {
	if err := s.live(ctx, run.Plain(), run.Life(), 0); err != nil {
		return err
	}
	listed, err := s.runs.Goes(ctx, run)
	if err != nil {
		return trouble("look for a run", err)
	}
	if listed {
		return nil
	}
	over, err := s.rdb.HGet(ctx, s.key(run, "run"), "over").Result()
	switch {
	case err != nil && err != redis.Nil:
		return trouble("look for a run", err)
	case over == "1":
		return nil
	}
	for _, change := range []func(context.Context, rollout.RunName) error{s.runs.Open, s.runs.Revive} {
		if err := change(ctx, run); err != nil {
			return trouble("list a run", err)
		}
	}
	return s.unlistDeleted(ctx, run) // it may have been deleted meanwhile
}

// unlistDeleted takes a run that was deleted off the list, and has the rest of what it held removed.
func (s *Store) unlistDeleted(ctx context.Context, run rollout.RunName) error {
	gone, err := s.rdb.Exists(ctx, s.key(run, "gone")).Result()
	if err != nil {
		return trouble("look for a run", err)
	}
	if gone == 0 {
		return nil // never opened, or Redis has forgotten it: its workflow opens it again
	}
	return s.Delete(ctx, run)
}

// WoundUp records that all facts of an ended run are written. From then on only its events may wait, for their sinks.
func (s *Store) WoundUp(ctx context.Context, run rollout.RunName) error {
	if err := store.NoteScope(ctx, s.rdb, s.prefix, run); err != nil {
		return trouble("wind up a run", err)
	}
	return trouble("wind up a run", s.runs.WoundUp(ctx, run))
}
