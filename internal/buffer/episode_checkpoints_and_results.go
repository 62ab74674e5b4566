package buffer

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/buffer/pack"
	"github.com/millrace/millrace/internal/rollout"
)

// SaveCheckpoint keeps the progress of an episode, so that another process can go on with it. It is refused as
// Fenced when the group or the episode is over, when a higher attempt has saved, or when the same attempt has saved a
// later phase. A higher attempt is never refused for its phase: it goes on from where it loaded, and what a lower one
// has saved since is void.
func (s *Store) SaveCheckpoint(ctx context.Context, ref rollout.EpisodeRef, attempt int, cp rollout.Checkpoint) error {
	data, err := pack.Save(&cp)
	if err != nil {
		return rollout.Refuse(rollout.Invalid, "checkpoint of %s: %v", ref, err)
	}
	r, err := s.evalEpisode(ctx, checkpointScript, ref, attempt, cp.PhaseIndex, data)
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	if !r.ok() {
		return episodeOver(ref, attempt, r)
	}
	return nil
}

// LoadCheckpoint is the latest progress of an episode, and false when there is none.
func (s *Store) LoadCheckpoint(ctx context.Context, ref rollout.EpisodeRef) (rollout.Checkpoint, bool, error) {
	data, err := s.rdb.HGet(ctx, s.groupKey("games", ref.GroupRef), "c"+strconv.Itoa(ref.Sample)).Bytes()
	if err == redis.Nil {
		return rollout.Checkpoint{}, false, nil
	}
	if err != nil {
		return rollout.Checkpoint{}, false, trouble("load checkpoint", err)
	}
	cp, err := pack.Load(data)
	if err != nil {
		return rollout.Checkpoint{}, false, fmt.Errorf("checkpoint of %s: %w", ref, err)
	}
	return cp, true, nil
}

// SaveEpisode keeps a finished episode and its game. The first finished one stands; saving again, from any
// attempt, changes nothing.
func (s *Store) SaveEpisode(ctx context.Context, ref rollout.EpisodeRef, attempt int, ep rollout.Episode,
	game []byte) error {
	data, err := pack.Episode(&ep)
	if err != nil {
		return rollout.Refuse(rollout.Invalid, "episode %s: %v", ref, err)
	}
	packed, err := pack.Bytes(game)
	if err != nil {
		return rollout.Refuse(rollout.Invalid, "game of %s: %v", ref, err)
	}
	fact, err := finishedFact(ref, &ep, s.now())
	if err != nil {
		return err
	}
	r, err := s.evalEpisode(ctx, episodeScript, ref, attempt, data, packed, ep.Phases, fact)
	if err != nil {
		return fmt.Errorf("save episode: %w", err)
	}
	if !r.ok() {
		return episodeOver(ref, attempt, r)
	}
	return nil
}

// Episodes is the finished episodes of a group that is not committed, by sample; unfinished ones are left out.
func (s *Store) Episodes(ctx context.Context, ref rollout.GroupRef, samples int) ([]rollout.Episode, error) {
	if samples < 1 {
		return nil, nil
	}
	names := make([]string, samples)
	for i := range names {
		names[i] = "e" + strconv.Itoa(i)
	}
	found, err := s.rdb.HMGet(ctx, s.groupKey("games", ref), names...).Result()
	if err != nil {
		return nil, trouble("read episodes", err)
	}
	var episodes []rollout.Episode
	for i, v := range found {
		data, ok := v.(string)
		if !ok {
			continue
		}
		ep, err := pack.ReadEpisode([]byte(data))
		if err != nil {
			return nil, fmt.Errorf("episode %s/%d: %w", ref, i, err)
		}
		episodes = append(episodes, ep)
	}
	return episodes, nil
}

// Game is an episode's game: the finished one while its group is retained, else the latest checkpoint's.
func (s *Store) Game(ctx context.Context, ref rollout.EpisodeRef) ([]byte, error) {
	data, err := s.rdb.HGet(ctx, s.groupKey("final", ref.GroupRef), strconv.Itoa(ref.Sample)).Bytes()
	if err == nil {
		game, err := pack.ReadBytes(data)
		if err != nil {
			return nil, fmt.Errorf("game of %s: %w", ref, err)
		}
		return game, nil
	}
	if err != redis.Nil {
		return nil, trouble("read game", err)
	}
	cp, found, err := s.LoadCheckpoint(ctx, ref)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, s.noGame(ctx, ref)
	}
	return cp.Game, nil
}

// evalEpisode runs a script whose first arguments are a group's number, a sample and an attempt.
func (s *Store) evalEpisode(ctx context.Context, sc *script, ref rollout.EpisodeRef, attempt int,
	args ...any) (reply, error) {
	if ref.Sample < 0 || attempt < 0 {
		return nil, rollout.Refuse(rollout.Invalid, "episode %s, attempt %d: numbers must not be negative", ref, attempt)
	}
	return s.evalGroup(ctx, sc, ref.GroupRef, append([]any{ref.Sample, attempt}, args...)...)
}

func episodeOver(ref rollout.EpisodeRef, attempt int, r reply) error {
	switch why := r.str(1); why {
	case "attempt":
		return rollout.Refuse(rollout.Fenced, "episode %s: attempt %d was given up; attempt %d plays it now", ref,
			attempt, r.int(2))
	case "phase":
		return rollout.Refuse(rollout.Fenced, "episode %s: attempt %d has already saved phase %d", ref, attempt, r.int(2))
	case "finished":
		return rollout.Refuse(rollout.Fenced, "episode %s is finished", ref)
	default:
		return groupOver(ref.GroupRef, why, "")
	}
}

func (s *Store) groupKey(kind string, ref rollout.GroupRef) string {
	return s.key(ref.Run, kind+":"+strconv.FormatInt(int64(ref.Seq), 10))
}
