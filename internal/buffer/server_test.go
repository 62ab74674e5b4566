package buffer_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/freeport"
	"github.com/millrace/millrace/internal/rollout"
)

// TestRedisIsKilled kills a Redis with an append-only file at every point of a run's life and goes on where
// it was.
func TestRedisIsKilled(t *testing.T) {
	t.Parallel()
	binary, dir := redisServer(t), t.TempDir()
	at := port(t)
	start := func() (stop func()) {
		cmd, err := serve(binary, dir, at, "--appendonly", "yes", "--appendfsync", "always")
		if err != nil {
			t.Fatal(err)
		}
		return func() { kill(cmd) }
	}
	stop := start()
	defer func() { stop() }()
	restart := func() { stop(); stop = start() }

	f := open(t, client(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(at)), 0), spec(1, 9))
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
	_, fresh, err := f.Complete(f.ctx, run, 0, rollout.TrainerGeneration(generation), report(0), rollout.FleetView{})
	f.ok(err)
	expect(t, "completed before", fresh, false)
	cp, found, err := f.LoadCheckpoint(f.ctx, game(2, 0))
	f.ok(err)
	expect(t, "checkpoint", found && cp.PhaseIndex == 4, true)
	expect(t, "counts", f.counts(), rollout.BufferCounts{InFlight: 1, Ready: 1, Completed: 1})
}

// TestCluster takes two runs through a cluster of two masters, which refuses a script that reaches for a key
// of the other one.
func TestCluster(t *testing.T) {
	t.Parallel()
	rdb := cluster(t)
	ctx := context.Background()
	s := buffer.New(rdb, buffer.Options{})
	for _, name := range []rollout.RunName{"a", "b", "c", "d"} {
		of := spec(1, 9)
		of.Name = name
		f := &fixture{Store: s, t: t, ctx: ctx, rdb: rdb}
		f.ok(s.Open(ctx, of, ""))
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
			_, _, err = s.Complete(ctx, name, rollout.Step(seq), 0, report(seq), rollout.FleetView{})
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

// cluster starts two masters that share the slots.
func cluster(t *testing.T) *redis.ClusterClient {
	t.Helper()
	binary, ctx := redisServer(t), context.Background()
	var addrs []string
	for _, slots := range [][2]int{{0, 8191}, {8192, 16383}} {
		at := port(t)
		cmd, err := serve(binary, t.TempDir(), at, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(port(t)),
			"--cluster-require-full-coverage", "no")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { kill(cmd) })
		addrs = append(addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(at)))
		node := client(t, addrs[len(addrs)-1], 0)
		if err := node.ClusterAddSlotsRange(ctx, slots[0], slots[1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, addr := range addrs {
		awaitCluster(t, client(t, addr, 0))
	}
	// The masters need not know each other: the client is told who has which slots.
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		MaxRedirects: 1,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{
				{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: addrs[0]}}},
				{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: addrs[1]}}},
			}, nil
		},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// awaitCluster waits until a master serves; a new one waits for two seconds before it does.
func awaitCluster(t *testing.T, node redis.UniversalClient) {
	t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		info, err := node.ClusterInfo(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(info, "cluster_state:ok") {
			return
		}
		<-look.C
	}
}

func port(t *testing.T) int {
	t.Helper()
	p, err := freeport.Port()
	if err != nil {
		t.Fatal(err)
	}
	return p
}
