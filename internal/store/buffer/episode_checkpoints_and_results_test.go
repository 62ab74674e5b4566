package buffer_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
)

// games is what episodes in progress can rely on.
var games = map[string]func(t *testing.T, rdb redis.UniversalClient){
	"a checkpoint comes back as it was saved": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 0)
		_, found, err := f.LoadCheckpoint(f.ctx, game(0, 1))
		f.ok(err)
		expect(t, "found", found, false)
		cp := checkpoint(3, "board")
		f.ok(f.SaveCheckpoint(f.ctx, game(0, 1), 1, cp))
		got, found, err := f.LoadCheckpoint(f.ctx, game(0, 1))
		f.ok(err)
		expect(t, "found", found, true)
		expect(t, "checkpoint", got, cp)
		expect(t, "a saved phase means that the group is played", f.counts(), steprecord.BufferCounts{InFlight: 1})
		board, err := f.Game(f.ctx, game(0, 1))
		f.ok(err)
		expect(t, "game", string(board), "board")
	},
	"an attempt taken for dead cannot overwrite": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 0)
		save := func(attempt, phase int, board string) error {
			return f.SaveCheckpoint(f.ctx, game(0, 0), attempt, checkpoint(phase, board))
		}
		f.ok(save(1, 1, "a"))
		f.ok(save(1, 2, "b"))
		f.ok(save(1, 2, "b"))
		f.refused(save(1, 1, "a"), rollout.Fenced)
		f.ok(save(1, 4, "zombie")) // attempt 2 has loaded phase 2 meanwhile
		f.ok(save(2, 3, "c"))
		f.refused(save(1, 5, "zombie"), rollout.Fenced)
		f.refused(f.SaveEpisode(f.ctx, game(0, 0), 1, rollout.Episode{}, nil), rollout.Fenced)
		cp, _, err := f.LoadCheckpoint(f.ctx, game(0, 0))
		f.ok(err)
		expect(t, "game", string(cp.Game), "c")
	},
	"the first finished game stands": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 0)
		first := rollout.Episode{Ref: game(0, 1), Phases: 9, Trajectories: group(0, 0).Trajectories[2:], Attempts: 1,
			StartedAt: start}
		f.ok(f.SaveEpisode(f.ctx, game(0, 1), 1, first, []byte("end")))
		f.ok(f.SaveEpisode(f.ctx, game(0, 1), 1, rollout.Episode{Phases: 7}, []byte("other")))
		f.ok(f.SaveEpisode(f.ctx, game(0, 1), 2, rollout.Episode{Phases: 7}, []byte("other")))
		f.refused(f.SaveCheckpoint(f.ctx, game(0, 1), 2, checkpoint(1, "late")), rollout.Fenced)
		got, err := f.Episodes(f.ctx, ref(0), 2)
		f.ok(err)
		expect(t, "episodes", got, []rollout.Episode{first})
		end, err := f.Game(f.ctx, game(0, 1))
		f.ok(err)
		expect(t, "game", string(end), "end")
	},
	"games end with their group, its boards are kept": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 1)
		f.ok(f.SaveCheckpoint(f.ctx, game(0, 0), 1, checkpoint(1, "a")))
		f.ok(f.SaveEpisode(f.ctx, game(0, 1), 1, rollout.Episode{Phases: 9}, []byte("end")))
		_, err := f.CommitGroup(f.ctx, group(0, 0))
		f.ok(err)
		_, found, err := f.LoadCheckpoint(f.ctx, game(0, 0))
		f.ok(err)
		expect(t, "found", found, false)
		episodes, err := f.Episodes(f.ctx, ref(0), 2)
		f.ok(err)
		expect(t, "episodes", len(episodes), 0)
		f.refused(f.SaveCheckpoint(f.ctx, game(0, 0), 9, checkpoint(2, "b")), rollout.Fenced)
		f.refused(f.SaveEpisode(f.ctx, game(0, 0), 9, rollout.Episode{}, nil), rollout.Fenced)
		end, err := f.Game(f.ctx, game(0, 1))
		f.ok(err)
		expect(t, "game", string(end), "end")

		f.ok(f.SaveCheckpoint(f.ctx, game(1, 0), 1, checkpoint(1, "a")))
		f.ok(f.Discard(f.ctx, ref(1), "cancelled"))
		f.refused(f.SaveCheckpoint(f.ctx, game(1, 0), 2, checkpoint(2, "b")), rollout.Fenced)
		_, err = f.Game(f.ctx, game(1, 0))
		f.refused(err, rollout.NotRetained)
	},
	"the progress of games can be listed": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 2)
		f.ready(0, 0)
		f.ok(f.SaveCheckpoint(f.ctx, game(2, 11), 3, checkpoint(5, "a")))
		f.ok(f.SaveEpisode(f.ctx, game(2, 0), 1, rollout.Episode{}, nil))
		got, err := f.Progress(f.ctx, run)
		f.ok(err)
		expect(t, "progress", got, []buffer.GroupProgress{
			{Seq: 1, LaunchedAt: start, Games: []buffer.GameProgress{}},
			{Seq: 2, InFlight: true, LaunchedAt: start, Games: []buffer.GameProgress{
				{Sample: 0, Attempt: 1, Finished: true}, {Sample: 11, Attempt: 3, Phases: 5},
			}},
		})
	},
	"games go on when Redis was emptied under them": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 0)
		f.ok(f.rdb.FlushDB(f.ctx).Err())
		f.refused(f.SaveCheckpoint(f.ctx, game(0, 0), 1, checkpoint(2, "a")), rollout.NoSuchRun)
		f.ok(f.Open(f.ctx, spec(1, 9)))
		f.ok(f.SaveCheckpoint(f.ctx, game(0, 0), 1, checkpoint(2, "a")))
		expect(t, "counts", f.counts(), steprecord.BufferCounts{InFlight: 1})
		f.queue(0, 0)
		_, err := f.CommitGroup(f.ctx, group(0, 0))
		f.ok(err)
		expect(t, "batch", seqs(f.claim(0, 0)), []int{0})
	},
}

func TestGames(t *testing.T) {
	t.Parallel()
	conform(t, games)
}

func game(seq, sample int) rollout.EpisodeRef {
	return rollout.EpisodeRef{GroupRef: ref(seq), Sample: sample}
}

func checkpoint(phase int, board string) rollout.Checkpoint {
	return rollout.Checkpoint{
		PhaseIndex: phase, Game: []byte(board),
		Episode: rollout.Episode{Ref: game(0, 0), Phases: phase, Trajectories: group(0, 0).Trajectories[:2],
			StartedAt: start},
	}
}
