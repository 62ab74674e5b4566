package buffer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer/pack"
)

// SaveCheckpoint replaces all that an episode's journal held by the episode's whole progress. It is refused as Fenced
// when the group or the episode is over, when a higher attempt has saved, or when the same attempt has saved a later
// phase. A higher attempt is never refused for its phase: it goes on from where it loaded, and later saves of a lower
// one are void. An attempt that plays appends to its Journal instead.
func (s *Store) SaveCheckpoint(ctx context.Context, ref rollout.EpisodeRef, attempt int, cp rollout.Checkpoint) error {
	record, err := new(pack.JournalWriter).Game(&cp)
	if err != nil {
		return rollout.Refuse(rollout.Invalid, "checkpoint of %s: %v", ref, err)
	}
	return s.saveWhole(ctx, ref, attempt, cp.PhaseIndex, record)
}

// saveWhole replaces a journal by a record of the game as a whole, where the account allows it.
func (s *Store) saveWhole(ctx context.Context, ref rollout.EpisodeRef, attempt, phases int, record []byte) error {
	r, err := s.evalEpisode(ctx, checkpointScript, ref, attempt, phases)
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	if !r.ok() {
		return episodeOver(ref, attempt, r)
	}
	return s.replaceJournal(ctx, ref, attempt, phases, record, 0, nil)
}

// replaceJournal replaces a journal by one record. If the group is over by now and its journals are deleted, the record
// is deleted, too.
func (s *Store) replaceJournal(ctx context.Context, ref rollout.EpisodeRef, attempt, phases int, record []byte,
	finished int, state []byte) error {
	answer, err := replaceJournal.Run(ctx, s.rdb, s.journalKeys(ref), attempt, phases, keptInSeconds, record, finished,
		state).Slice()
	if err != nil {
		return trouble("replace journal", err)
	}
	if r := reply(answer); r.str(0) != "ok" {
		return journalRefused(ref, attempt, r)
	}
	return s.stillInPlay(ctx, ref)
}

// stillInPlay refuses a game whose group is over, and deletes what was just written for it. The state of a finished
// game stays while its group is kept.
func (s *Store) stillInPlay(ctx context.Context, ref rollout.EpisodeRef) error {
	left, err := s.peek(ctx, ref.GroupRef)
	if err == nil && left == nil {
		return nil
	}
	if err != nil && !rollout.Refused(err, rollout.NoSuchRun) {
		return err
	}
	gone := err != nil || left.Dropped != ""
	_ = s.rdb.Unlink(ctx, s.journalKeys(ref)[:1+flag(gone)]...).Err() // the journal is forgotten in any case
	if err == nil {
		err = rollout.Refuse(rollout.Fenced, "group %s is over; nothing can be added to it", ref.GroupRef)
	}
	return err
}

// LoadCheckpoint is the latest progress of an episode, and false when there is none.
func (s *Store) LoadCheckpoint(ctx context.Context, ref rollout.EpisodeRef) (rollout.Checkpoint, bool, error) {
	records, err := s.rdb.LRange(ctx, s.gameKey(ref, "journal"), 1, -1).Result()
	if err != nil {
		return rollout.Checkpoint{}, false, trouble("load checkpoint", err)
	}
	kept, err := pack.ReadJournal(ref, records)
	if err != nil {
		return rollout.Checkpoint{}, false, fmt.Errorf("journal of %s: %w", ref, err)
	}
	if kept.Checkpoint == nil {
		return rollout.Checkpoint{}, false, nil
	}
	return *kept.Checkpoint, true, nil
}

// SaveEpisode keeps a finished episode and its game as a whole. The first finished one stands; saving again, from any
// attempt, changes nothing. Who plays a game ends its Journal instead.
func (s *Store) SaveEpisode(ctx context.Context, ref rollout.EpisodeRef, attempt int, ep rollout.Episode,
	game []byte) error {
	record, err := new(pack.JournalWriter).Whole(&ep)
	if err != nil {
		return rollout.Refuse(rollout.Invalid, "episode %s: %v", ref, err)
	}
	state, err := pack.Bytes(game)
	if err != nil {
		return rollout.Refuse(rollout.Invalid, "game of %s: %v", ref, err)
	}
	r, err := s.evalEpisode(ctx, checkpointScript, ref, attempt, ep.Phases)
	switch why := r.str(1); {
	case err != nil:
		return fmt.Errorf("save episode: %w", err)
	case r.ok(), why == "phase":
	case why == "finished":
		return nil
	default:
		return episodeOver(ref, attempt, r)
	}
	if err := s.replaceJournal(ctx, ref, attempt, ep.Phases, record, 1, state); err != nil {
		return err
	}
	return s.finished(ctx, ref, attempt, &ep)
}

// finished tells the account that a game's journal holds its end.
func (s *Store) finished(ctx context.Context, ref rollout.EpisodeRef, attempt int, ep *rollout.Episode) error {
	fact, err := finishedFact(ref, ep, s.now())
	if err != nil {
		return err
	}
	r, err := s.evalEpisode(ctx, episodeScript, ref, attempt, ep.Phases, fact)
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
	journals := map[int]*redis.StringSliceCmd{}
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range found {
			if found[i] != nil {
				journals[i] = p.LRange(ctx, s.gameKey(rollout.EpisodeRef{GroupRef: ref, Sample: i}, "journal"), 1, -1)
			}
		}
		return nil
	})
	if err != nil {
		return nil, trouble("read episodes", err)
	}
	var episodes []rollout.Episode
	for _, i := range slices.Sorted(maps.Keys(journals)) {
		of := rollout.EpisodeRef{GroupRef: ref, Sample: i}
		read, err := pack.ReadJournal(of, journals[i].Val())
		if err != nil {
			return nil, fmt.Errorf("episode %s: %w", of, err)
		}
		if read.Finished != nil { // a journal may be lost, with the node that held it
			episodes = append(episodes, *read.Finished)
		}
	}
	return episodes, nil
}

// Game is an episode's game: the finished one while its group is retained, else the latest checkpoint's.
func (s *Store) Game(ctx context.Context, ref rollout.EpisodeRef) ([]byte, error) {
	data, err := s.rdb.Get(ctx, s.gameKey(ref, "final")).Bytes()
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

// journalRefused is why a journal refuses an attempt's record: its scripts return only the reason.
func journalRefused(ref rollout.EpisodeRef, attempt int, r reply) error {
	return episodeOver(ref, attempt, append(reply{"fenced"}, r...))
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
