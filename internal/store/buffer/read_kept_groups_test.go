package buffer_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
)

// keptGroups is how a person reads groups and games that are kept, and changes nothing of them.
var keptGroups = map[string]func(t *testing.T, rdb redis.UniversalClient){
	"a game's turns: in play, finished, committed, gone": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 2)
		f.refused(second(f.EpisodeTurns(f.ctx, game(0, 0))), rollout.NotRetained)
		f.ok(f.SaveCheckpoint(f.ctx, game(0, 0), 1, checkpoint(3, "a")))
		in, err := f.EpisodeTurns(f.ctx, game(0, 0))
		f.ok(err)
		if want := checkpoint(3, "a").Episode; len(in.Trajectories) != len(want.Trajectories) {
			t.Errorf("in play: %d trajectories, want %d", len(in.Trajectories), len(want.Trajectories))
		}
		if kept, err := f.Group(f.ctx, ref(1)); kept != nil || err != nil {
			t.Errorf("not committed: %v, %v", kept, err)
		}
		of := group(1, 0)
		_, err = f.CommitGroup(f.ctx, of)
		f.ok(err)
		kept, err := f.Group(f.ctx, ref(1))
		f.ok(err)
		if len(kept.Trajectories) != len(of.Trajectories) {
			t.Errorf("%d trajectories, want %d", len(kept.Trajectories), len(of.Trajectories))
		}
		sample := of.Trajectories[0].Sample
		ep, err := f.EpisodeTurns(f.ctx, game(1, sample))
		f.ok(err)
		for _, one := range ep.Trajectories {
			if one.Sample != sample {
				t.Errorf("of game %d: a trajectory of game %d", sample, one.Sample)
			}
		}
		if len(ep.Trajectories) == 0 {
			t.Error("the committed game has no trajectories")
		}
		f.refused(second(f.EpisodeTurns(f.ctx, game(1, 1_000_000))), rollout.NotRetained)
		for i, want := range map[int]buffer.GroupState{0: buffer.GroupInFlight, 1: buffer.GroupReady, 7: ""} {
			if state, err := f.GroupState(f.ctx, ref(i)); state != want || err != nil {
				t.Errorf("group %d is %q, %v; want %q", i, state, err, want)
			}
		}
	},
}

func second[T any](_ T, err error) error { return err }

func TestKeptGroups(t *testing.T) {
	t.Parallel()
	conform(t, keptGroups)
}
