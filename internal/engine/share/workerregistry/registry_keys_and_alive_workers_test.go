package workerregistry_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engine/share"
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/store/redistest"
)

// clockedRedis is a Redis whose clock stands where it is set to.
func clockedRedis(t *testing.T) (redis.UniversalClient, func(time.Time)) {
	t.Helper()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, server.SetTime
}

// announce says no more than that a worker is there.
func announce(ctx context.Context, r *workerregistry.Registry, worker string, alive time.Duration) error {
	_, _, err := r.Exchange(ctx, share.Member{Worker: worker}, time.Second, alive)
	return err
}

func TestWorkersComeAndGo(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	now := time.Unix(1000, 0)
	rdb, setClock := clockedRedis(t)
	setClock(now)
	r := workerregistry.New(rdb, "test", func() time.Time { return now })
	for _, w := range []string{"w2", "w1"} {
		if err := announce(ctx, r, w, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if err := r.ReportQueue(ctx, w, 5); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := r.Alive(ctx); !slices.Equal(got, []string{"w1", "w2"}) {
		t.Errorf("workers %v", got)
	}
	now = now.Add(6 * time.Second)
	setClock(now)
	if err := announce(ctx, r, "w1", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	now = now.Add(6 * time.Second)
	setClock(now)
	if got, _ := r.Alive(ctx); !slices.Equal(got, []string{"w1"}) {
		t.Errorf("workers %v after one fell silent", got)
	}
	if n, err := r.Queued(ctx); n != 5 || err != nil {
		t.Errorf("queued %d, %v", n, err)
	}
	if err := r.Leave(ctx, "w1"); err != nil {
		t.Fatal(err)
	}
	if got, _ := r.Alive(ctx); len(got) != 0 {
		t.Errorf("workers %v after the last left", got)
	}
}

// TestWorkersAreDescribed: those that are there, those that stopped, and those that nobody heard of any more, until
// they are forgotten.
func TestWorkersAreDescribed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	now := time.Unix(1000, 0)
	rdb, setClock := clockedRedis(t)
	setClock(now)
	r := workerregistry.New(rdb, "test", func() time.Time { return now })
	ok := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	add := func(id string, games int) {
		t.Helper()
		ok(t, announce(ctx, r, id, 8*time.Second))
		ok(t, r.Describe(ctx, enginestate.Worker{ID: id, Host: "gpu7", Version: "v1", Slots: 10, Games: games,
			ByRun: map[rollout.RunName]int{"demo": games}}))
	}
	see := func(want string) {
		t.Helper()
		workers, err := r.List(ctx)
		ok(t, err)
		var got []string
		for _, w := range workers {
			got = append(got, fmt.Sprintf("%s %s %d", w.ID, w.State, w.Games))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
		}
	}
	see("")
	add("a", 1)
	add("b", 7)
	ok(t, announce(ctx, r, "old", 8*time.Second)) // of a version that says no more
	see("b alive 7, a alive 1, old alive 0")
	ok(t, r.Describe(ctx, enginestate.Worker{ID: "a", State: enginestate.WorkerStopped}))
	ok(t, r.Leave(ctx, "a"))
	see("b alive 7, old alive 0, a stopped 0")
	now = now.Add(10 * time.Second)
	setClock(now)
	see("a stopped 0, b absent 0")
	for i := range 64 {
		add(fmt.Sprintf("c%02d", i), 0)
	}
	now = now.Add(10 * time.Second)
	setClock(now)
	ok(t, r.ForgetGone(ctx))
	if workers, err := r.List(ctx); err != nil || len(workers) != 64 || workers[63].ID != "c63" {
		t.Errorf("%d workers are kept, want the latest 64: %v", len(workers), err)
	}
	now = now.Add(13 * time.Hour)
	setClock(now)
	ok(t, r.ForgetGone(ctx))
	see("")
}

// Where Redis takes no writes, no worker can say that it is alive: that is told, and not that none is there.
func TestThatRedisTakesNoWritesIsNoAbsenceOfWorkers(t *testing.T) {
	t.Parallel()
	port, err := freeport.Port()
	if err != nil {
		t.Fatal(err)
	}
	address, _ := redistest.Start(t, t.TempDir(), port)
	rdb := redis.NewClient(&redis.Options{Addr: address})
	t.Cleanup(func() { _ = rdb.Close() })
	r := workerregistry.New(rdb, "test", time.Now)
	if workers, err := r.List(t.Context()); err != nil || len(workers) > 0 {
		t.Errorf("%v, %v before any worker came", workers, err)
	}
	if err := rdb.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	_, err = r.List(t.Context())
	if !rollout.Refused(err, rollout.Unavailable) || !strings.Contains(err.Error(), "Redis takes no writes: OOM") {
		t.Errorf("%v while its memory is full", err)
	}
}
