package buffer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// A run is deleted in two parts. Delete takes it away from everybody in one instant, whatever it holds: every
// script refuses it from then on, and its name is free. Purge removes what it held, in small portions, so that
// Redis serves others meanwhile; it may be interrupted anywhere and begun again by any process.

// goneFor is how long a deletion is remembered, so that a late player of the run does not open it again.
const goneFor = 30 * 24 * time.Hour

// Delete makes a run unknown and frees its name for another one. Deleting what is not there is no error.
func (s *Store) Delete(ctx context.Context, run rollout.RunName) error {
	_, err := s.delete(ctx, run, false)
	return err
}

// DeleteOver deletes a run that is over, and reports whether it did: one that was resumed meanwhile stays.
func (s *Store) DeleteOver(ctx context.Context, run rollout.RunName) (bool, error) {
	return s.delete(ctx, run, true)
}

func (s *Store) delete(ctx context.Context, run rollout.RunName, onlyOver bool) (bool, error) {
	if err := s.runs.Delete(ctx, run); err != nil {
		return false, trouble("delete run", err)
	}
	r, err := s.eval(ctx, deleteScript, run, s.now().Unix(), int64(goneFor.Seconds()), flag(onlyOver))
	if err != nil {
		return false, fmt.Errorf("delete run: %w", err)
	}
	if r.int(1) == 0 { // there never was one, or it goes on
		return false, s.purged(ctx, run)
	}
	s.known.forget(run)
	if err := s.live(ctx, run.Plain(), run.Life()+1, r.int(2)); err != nil {
		return false, err
	}
	if err := s.runs.Remove(ctx, run); err != nil {
		return false, trouble("delete run", err)
	}
	return true, nil
}

// Deleting is the runs that were deleted and still hold something, for Purge, by name.
func (s *Store) Deleting(ctx context.Context) ([]rollout.RunName, error) {
	runs, err := s.runs.Deleting(ctx)
	if err != nil {
		return nil, trouble("list deleted runs", err)
	}
	slices.Sort(runs)
	return runs, nil
}

// Redis serves no other client while it works through what one client has sent at once.
const (
	purgeAtOnce  = 100 // groups or steps that are looked up
	unlinkAtOnce = 512 // keys that are removed
)

// Purge removes everything that a deleted run held. A run whose deletion has begun only elsewhere is deleted first.
func (s *Store) Purge(ctx context.Context, run rollout.RunName) error {
	if err := s.Delete(ctx, run); err != nil {
		return err
	}
	for _, state := range []string{"queued", "in_flight", "ready", "claimed"} {
		if err := s.purgeGroups(ctx, run, s.key(run, state)); err != nil {
			return err
		}
	}
	if err := s.purgeSteps(ctx, run); err != nil {
		return err
	}
	if err := s.collect(ctx, run); err != nil {
		return err
	}
	rest := []string{"trained", "dropped", "codes", "drops", "departures", "attempts", "failing", "alarms",
		"older", "dying", "tokens", "spent", "external:open", "external:seen", "vllm"}
	for i, name := range rest {
		rest[i] = s.key(run, name)
	}
	if err := s.rdb.Unlink(ctx, rest...).Err(); err != nil {
		return trouble("purge run", err)
	}
	return s.purged(ctx, run)
}

func (s *Store) purged(ctx context.Context, run rollout.RunName) error {
	return trouble("purge run", s.runs.Purged(ctx, run))
}

// purgeGroups removes the groups of a set and then the set, portion by portion.
func (s *Store) purgeGroups(ctx context.Context, run rollout.RunName, set string) error {
	for {
		seqs, err := s.rdb.ZRange(ctx, set, 0, purgeAtOnce-1).Result()
		if err != nil {
			return trouble("purge run", err)
		}
		if len(seqs) == 0 {
			return nil
		}
		if err := s.purgeLooked(ctx, run, seqs); err != nil {
			return err
		}
		if err := s.rdb.ZRem(ctx, set, seqs).Err(); err != nil {
			return trouble("purge run", err)
		}
	}
}

// purgeLooked removes groups and the kept data of their games.
func (s *Store) purgeLooked(ctx context.Context, run rollout.RunName, seqs []string) error {
	for portion := range slices.Chunk(seqs, purgeAtOnce) {
		if err := s.purgeGames(ctx, run, portion); err != nil {
			return err
		}
		if err := s.unlink(ctx, s.groupKeys(run, portion)); err != nil {
			return err
		}
	}
	return nil
}

// unlink removes keys of any slots, portion by portion.
func (s *Store) unlink(ctx context.Context, keys []string) error {
	for portion := range slices.Chunk(keys, unlinkAtOnce) {
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range portion {
				p.Unlink(ctx, key)
			}
			return nil
		})
		if err != nil {
			return trouble("purge run", err)
		}
	}
	return nil
}

// purgeSteps removes the records of steps, the oldest first, and the groups that are kept of them.
func (s *Store) purgeSteps(ctx context.Context, run rollout.RunName) error {
	dying := s.key(run, "dying")
	for {
		fields, err := s.rdb.HMGet(ctx, dying, "granted", "purged").Result()
		if err != nil {
			return trouble("purge run", err)
		}
		to, from := reply(fields).int(0), reply(fields).int(1)
		if from >= to {
			return nil
		}
		to = min(to, from+purgeAtOnce)
		of := make([]*redis.StringCmd, 0, purgeAtOnce)
		_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for k := from; k < to; k++ {
				of = append(of, p.HGet(ctx, s.stepKey(run, rollout.Step(k)), "seqs"))
			}
			return nil
		})
		if err != nil && err != redis.Nil {
			return trouble("purge run", err)
		}
		var all []string
		for _, seqs := range of {
			all = append(all, strings.Fields(seqs.Val())...)
		}
		if err := s.purgeLooked(ctx, run, all); err != nil {
			return err
		}
		steps := make([]string, 0, to-from)
		for k := from; k < to; k++ {
			steps = append(steps, s.stepKey(run, rollout.Step(k)))
		}
		if err := s.unlink(ctx, steps); err != nil {
			return err
		}
		if err := s.rdb.HSet(ctx, dying, "purged", to).Err(); err != nil {
			return trouble("purge run", err)
		}
	}
}

// purgeGames removes what is kept of the games of groups in slots of their own.
func (s *Store) purgeGames(ctx context.Context, run rollout.RunName, seqs []string) error {
	begun, ended := make([]*redis.StringSliceCmd, len(seqs)), make([]*redis.StringCmd, len(seqs))
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, seq := range seqs {
			begun[i] = p.HKeys(ctx, s.key(run, "games:"+seq))
			ended[i] = p.HGet(ctx, s.key(run, "group:"+seq), "games")
		}
		return nil
	})
	if err != nil && err != redis.Nil {
		return trouble("purge run", err)
	}
	var keys []string
	for i, seq := range seqs {
		n, _ := strconv.ParseInt(seq, 10, 64) // a number that our scripts wrote
		of := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: run, Seq: rollout.GroupSeq(n)}}
		for _, sample := range append(begun[i].Val(), strings.Fields(ended[i].Val())...) {
			if of.Sample, err = strconv.Atoi(strings.TrimPrefix(sample, "a")); err == nil {
				keys = append(keys, s.journalKeys(of)...)
				keys = append(keys, s.key(run, fmt.Sprintf("external:game:%d-%d", n, of.Sample))) // a dropped one goes by itself
			}
		}
	}
	return s.unlink(ctx, keys)
}

func (s *Store) groupKeys(run rollout.RunName, seqs []string) []string {
	keys := make([]string, 0, 2*len(seqs))
	for _, text := range seqs {
		seq, _ := strconv.ParseInt(text, 10, 64) // a number that our scripts wrote
		ref := rollout.GroupRef{Run: run, Seq: rollout.GroupSeq(seq)}
		keys = append(keys, s.groupKey("group", ref), s.groupKey("games", ref))
	}
	return keys
}

// Forget forgets a run that was opened and never said a word, so that it may be opened with another spec, and
// reports whether it was one.
func (s *Store) Forget(ctx context.Context, run rollout.RunName) (bool, error) {
	generation, err := s.rdb.HGet(ctx, s.key(run, "run"), "generation").Int64() // of a trainer that was early
	if err != nil && err != redis.Nil {
		return false, trouble("forget run", err)
	}
	if err := s.live(ctx, run.Plain(), run.Life(), generation); err != nil {
		return false, err
	}
	forgotten, err := s.did(ctx, "forget run", forgetScript, run)
	if forgotten {
		s.known.forget(run)
	}
	return forgotten, err
}
