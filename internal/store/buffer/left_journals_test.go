package buffer_test

import (
	"context"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/redistest"
)

// In a Cluster the node that has a run's account may come back older, while others still have the journals of games
// that the account has forgotten. A repair that drops their groups leaves nothing of them, and all of those that are
// played on.
func TestARepairLeavesNoGamesOfDroppedGroups(t *testing.T) {
	t.Parallel()
	f := open(t, redistest.Real(t), spec(2, 9))
	f.queue(0, 1) // of which 1 is known, and its games are not
	before := f.account()
	f.queue(2, 5)
	for seq := range 5 {
		for sample := range 2 {
			of := playJournal(t, f, game(seq, sample), 1)
			f.ok(of.answer("FRANCE"))
			f.ok(of.phase())
			if seq > 1 && sample == 0 {
				f.ok(of.end())
			}
		}
	}
	f.ready(0, 5)
	f.putBack(before)
	_, err := f.Repair(f.ctx, run, buffer.Repair{Era: 2, NextGroup: 7, Playing: []rollout.GroupSeq{0, 3}, Games: 2})
	f.ok(err)
	for _, what := range []string{"journal", "final"} {
		keys, err := f.rdb.Keys(f.ctx, "millrace:{demo/*:"+what).Result()
		f.ok(err)
		for _, key := range keys {
			if !strings.Contains(key, "{demo/0/") && !strings.Contains(key, "{demo/3/") {
				t.Errorf("%s is left, though its group was dropped", key)
			}
		}
		expect(t, what+"s left", len(keys), map[string]int{"journal": 4, "final": 1}[what])
	}
	of := playJournal(t, f, game(0, 1), 2)
	expect(t, "phases of a game that is played on", of.now.PhaseIndex, 1)
}

// account is all keys of the run's account.
func (f *fixture) account() map[string]string {
	f.t.Helper()
	keys, err := f.rdb.Keys(f.ctx, "millrace:{demo}:*").Result()
	f.ok(err)
	image := map[string]string{}
	for _, key := range keys {
		image[key], err = f.rdb.Dump(f.ctx, key).Result()
		f.ok(err)
	}
	return image
}

// putBack makes the account what it was, and leaves everything else.
func (f *fixture) putBack(image map[string]string) {
	f.t.Helper()
	for key := range f.account() {
		f.ok(f.rdb.Del(f.ctx, key).Err())
	}
	_, err := f.rdb.Pipelined(f.ctx, func(p redis.Pipeliner) error {
		for key, value := range image {
			p.Restore(f.ctx, key, 0, value)
		}
		return nil
	})
	f.ok(err)
}

// A finished game is saved as a whole in two steps; whatever becomes of its group between them, nothing of it is left
// that nobody deletes.
func TestAGameSavedWhileItsGroupLeavesIsDeleted(t *testing.T) {
	t.Parallel()
	for what, leave := range map[string]func(f *fixture) error{
		"dropped": func(f *fixture) error { return f.Discard(f.ctx, ref(0), rollout.CodeZeroVariance) },
		"deleted": func(f *fixture) error { return f.Purge(f.ctx, run) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			addr := miniredis.RunT(t).Addr()
			rdb := redistest.Client(t, addr, 0)
			f := open(t, rdb, spec(2, 9))
			f.queue(0, 0)
			before := &between{do: func() { f.ok(leave(f)) }}
			hooked := redistest.Client(t, addr, 0)
			hooked.AddHook(before)
			err := buffer.New(hooked, buffer.Options{}).SaveEpisode(f.ctx, game(0, 1), 1, rollout.Episode{Phases: 3,
				Ref: game(0, 1), Trajectories: []rollout.Trajectory{}}, []byte("the end"))
			expect(t, "came between", before.done, true)
			if err == nil {
				t.Error("saved")
			}
			f.gone("millrace:{demo/*")
		})
	}
}

// between does something before the first script of two keys: a game's.
type between struct {
	do   func()
	done bool
}

func (b *between) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); !b.done && len(args) > 2 && cmd.Name() == "evalsha" && args[2] == 2 {
			b.done = true
			b.do()
		}
		return next(ctx, cmd)
	}
}
