package buffer_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/redistest"
)

// TestRedisIsKilled kills a Redis with an append-only file at every point of a run's life and goes on where
// it was.
func TestRedisIsKilled(t *testing.T) {
	t.Parallel()
	dir, at := t.TempDir(), redistest.Port(t)
	start := func() (addr string, stop func()) {
		return redistest.Start(t, dir, at, "--appendonly", "yes", "--appendfsync", "always")
	}
	addr, stop := start()
	defer func() { stop() }()
	var f *fixture
	restart := func() { stop(); _, stop = start(); f.confirm() }

	f = open(t, redistest.Client(t, addr, 0), spec(1, 9))
	generation, _ := f.attach(-1)
	f.queue(0, 2)
	f.ok(f.SaveCheckpoint(f.ctx, game(2, 0), 1, checkpoint(4, "board")))
	restart()
	f.ready(0, 0, 1)
	restart()
	first := asJSON(t, f.claim(0, generation))
	restart()
	expect(t, "same batch", asJSON(t, f.claim(0, generation)), first)
	f.complete(0, generation)
	restart()
	_, fresh, err := f.Complete(f.ctx, run, 0, rollout.TrainerGeneration(generation), report(0), steprecord.FleetView{})
	f.ok(err)
	expect(t, "completed before", fresh, false)
	cp, found, err := f.LoadCheckpoint(f.ctx, game(2, 0))
	f.ok(err)
	expect(t, "checkpoint", found && cp.PhaseIndex == 4, true)
	expect(t, "counts", f.counts(), steprecord.BufferCounts{InFlight: 1, Ready: 1, Completed: 1})
}

// TestCluster takes two runs through a cluster of two masters, which refuses a script that reaches for a key
// of the other one.
func TestCluster(t *testing.T) {
	t.Parallel()
	rdb := redistest.Cluster(t, 2)
	ctx := context.Background()
	s := buffer.New(rdb, buffer.Options{})
	for _, name := range []rollout.RunName{"a", "b", "c", "d"} {
		of := spec(1, 9)
		of.Name = name
		f := &fixture{Store: s, t: t, ctx: ctx, rdb: rdb}
		f.ok(s.Open(ctx, of))
		for seq := range 6 {
			g := group(seq, 0)
			g.Ref.Run = name
			_, err := s.Queue(ctx, g.Ref, []byte("x"), 0, start)
			f.ok(err)
			f.ok(s.SaveCheckpoint(ctx, rollout.EpisodeRef{GroupRef: g.Ref}, 1, checkpoint(1, "a")))
			if seq == 5 {
				f.ok(s.Discard(ctx, g.Ref, "x"))
				continue
			}
			_, err = s.CommitGroup(ctx, g)
			f.ok(err)
			_, err = s.Claim(ctx, name, rollout.Step(seq), 0, buffer.Share{})
			f.ok(err)
			_, _, err = s.Complete(ctx, name, rollout.Step(seq), 0, report(seq), steprecord.FleetView{})
			f.ok(err)
		}
		steps, err := s.Steps(ctx, name, 0, 0)
		f.ok(err)
		expect(t, "steps", len(steps), 5)
	}
	runs, err := s.Runs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "runs", len(runs), 4)
	for _, r := range runs {
		if err := s.Delete(ctx, r.Spec.Name); err != nil {
			t.Error(err)
		}
	}
}

// TestOneRunIsSpreadOverACluster: its games lie on all nodes, its account on one, and nothing of either is left.
func TestOneRunIsSpreadOverACluster(t *testing.T) {
	t.Parallel()
	const groups = 40
	rdb := redistest.Cluster(t, 2)
	f := &fixture{Store: buffer.New(rdb, buffer.Options{}), t: t, ctx: t.Context(), rdb: rdb}
	f.ok(f.Open(f.ctx, spec(1, 99)))
	f.queue(0, groups-1)
	var games sync.WaitGroup
	for seq := range groups {
		games.Go(func() {
			of := playJournal(t, f, game(seq, 0), 1)
			for range 3 {
				for _, agent := range []string{"FRANCE", "ITALY"} {
					if err := of.answer(agent); err != nil {
						t.Error(err)
					}
				}
				if err := of.phase(); err != nil {
					t.Error(err)
				}
			}
			if err := of.end(); err != nil {
				t.Error(err)
			}
		})
	}
	games.Wait()
	onNode := func(pattern string) (keys []int) {
		var mu sync.Mutex
		f.ok(rdb.ForEachMaster(f.ctx, func(ctx context.Context, node *redis.Client) error {
			found, err := node.Keys(ctx, pattern).Result()
			mu.Lock()
			defer mu.Unlock()
			keys = append(keys, len(found))
			return err
		}))
		return keys
	}
	for _, kind := range []string{"journal", "final"} {
		keys := onNode("millrace:{demo/*}:" + kind)
		if sum := keys[0] + keys[1]; sum != groups || min(keys[0], keys[1]) < groups/5 {
			t.Errorf("%s: %v keys on the nodes, want %d in all and a fifth on each at least", kind, keys, groups)
		}
	}
	expect(t, "keys of the account on the other node", slices.Min(onNode("millrace:{demo}:*")), 0)
	for seq := range groups {
		episodes, err := f.Episodes(f.ctx, ref(seq), 1)
		f.ok(err)
		expect(t, "phases", episodes[0].Phases, 3)
		if seq%2 == 0 {
			_, err := f.CommitGroup(f.ctx, group(seq, 0))
			f.ok(err)
		}
	}
	journals := onNode("millrace:{demo/*}:journal")
	expect(t, "journals of groups that are played", journals[0]+journals[1], groups/2)
	f.ok(f.Delete(f.ctx, run))
	f.ok(f.Purge(f.ctx, run))
	left := onNode("millrace:{demo/*")
	expect(t, "keys of games that are left", left[0]+left[1], 0)
}

// A Redis whose password changed before ours did is one to wait for, as one that is away: no trainer dies of it.
func TestARedisThatRefusesLoginsIsUnavailable(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	f := open(t, rdb, spec(2, 3))
	for _, refusal := range []string{"NOAUTH Authentication required.",
		"WRONGPASS invalid username-password pair or user is disabled.", "NOPERM this user has no permissions"} {
		server.SetError(refusal)
		_, _, err := f.Attach(f.ctx, run, nil)
		f.refused(err, rollout.Unavailable)
	}
}
