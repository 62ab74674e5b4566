package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/redisserver"
	"github.com/millrace/millrace/internal/store/redistest"
)

// spooling is a store whose facts wait in a folder.
func spooling(t *testing.T, rdb redis.UniversalClient, dir string, limits store.Limits) *store.Store {
	t.Helper()
	s := store.New(rdb, "test", limits)
	if err := s.SpoolIn(dir, 64<<20); err != nil {
		t.Fatal(err)
	}
	go s.Run(context.WithoutCancel(t.Context()))
	t.Cleanup(s.Close)
	return s
}

// TestFactsWaitOnTheDisk: far more facts than memory holds outlive an outage of Redis, and the process that emitted
// them; of samples the newest are kept.
func TestFactsWaitOnTheDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rdb, dir := newLink(t), t.TempDir()
		rdb.unavailable.Store(true)
		s := spooling(t, rdb, dir, store.Limits{Queue: 100})
		for n := range 5000 {
			s.Emit(fact("demo", n))
			if n%50 == 0 {
				synctest.Wait() // a burst is bounded by the queue
			}
		}
		for n := range 500 {
			s.Emit(sample("demo", n))
		}
		synctest.Wait() // what is told comes behind what is on the disk, and not behind what is queued
		if err := s.Tell(t.Context(), fact("demo", 5000)); err != nil {
			t.Errorf("told while Redis is unavailable: %v", err)
		}
		time.Sleep(10 * time.Hour)
		got := s.Stats()
		if got.LostFacts != 0 || got.LostSamples == 0 || got.SpoolBytes == 0 || !got.Unavailable || got.Waiting > 150 {
			t.Errorf("in the outage: %+v", got)
		}
		s.Close()
		rdb.unavailable.Store(false)
		s = spooling(t, rdb, dir, store.Limits{Queue: 100})
		time.Sleep(time.Minute)
		if got := s.Stats(); got.Written != 5001 || got.SpoolBytes != 0 || got.Unavailable || got.DiskFault != "" {
			t.Errorf("after it, in the next process: %+v", got)
		}
		all, err := s.Facts(t.Context(), "demo", "", 10_000)
		if err != nil || len(all) != 5001 {
			t.Fatalf("%d facts, %v", len(all), err)
		}
		for n, key := range keys(t, all) {
			if key != fmt.Sprint(n) {
				t.Fatalf("fact %d is %s", n, key)
			}
		}
	})
}

// TestABrokenDisk: facts then wait in memory, and what has no room there is counted.
func TestABrokenDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rdb, dir := newLink(t), t.TempDir()
		s := spooling(t, rdb, dir, store.Limits{Queue: 100})
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		s.Emit(fact("demo", 0))
		time.Sleep(time.Second)
		if got := s.Stats(); got.Written != 1 || got.DiskFault == "" {
			t.Errorf("without the disk: %+v", got)
		}
		rdb.unavailable.Store(true)
		for n := range 1000 {
			s.Emit(fact("demo", n+1))
		}
		time.Sleep(time.Minute)
		lost := s.Stats().LostFacts
		rdb.unavailable.Store(false)
		time.Sleep(time.Minute)
		if got := s.Stats(); lost == 0 || got.LostFacts != lost || got.Written+lost != 1001 {
			t.Errorf("without the disk and Redis: %+v, %d were lost", got, lost)
		}
	})
}

// child is this test's program in the place of a server or worker: it emits and tells facts, and says which of them
// are kept.
const child = "MILLRACE_TEST_STORE_CHILD"

func TestChildProcess(t *testing.T) {
	where := os.Getenv(child)
	if where == "" {
		t.Skip("it is a child process of TestKills")
	}
	addr, rest, _ := strings.Cut(where, " ")
	dir, first, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: time.Second}), "test",
		store.Limits{})
	if err := s.SpoolIn(dir, 64<<20); err != nil {
		t.Fatal(err)
	}
	go s.Run(t.Context())
	for ; ; n += 10 {
		for i := range 9 {
			s.Emit(fact("demo", n+i))
		}
		if s.Tell(t.Context(), fact("demo", n+9)) == nil {
			fmt.Printf("kept %d\n", n+9)
		}
		for s.Stats().Waiting > 0 {
			time.Sleep(100 * time.Microsecond)
		}
		for i := range 9 {
			fmt.Printf("kept %d\n", n+i)
		}
	}
}

// TestKills: with kill -9 of the process that emits and of Redis, which syncs always, every fact that was kept is
// there. A Redis that was killed has its log written anew before it is killed again, as servers have it
// (redisserver.RewriteTornLogs): else one kill in some hundred tears the log, and the next start loses a batch.
func TestKills(t *testing.T) {
	t.Parallel()
	port := redistest.Port(t)
	folder := t.TempDir()
	spool, data := filepath.Join(folder, "spool"), filepath.Join(folder, "redis")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	startRedis := func() (addr string, kill func()) {
		return redistest.Start(t, data, port, "--appendonly", "yes", "--appendfsync", "always")
	}
	addr, killRedis := startRedis()
	rng := rand.New(rand.NewPCG(1, 2))
	kept := map[string]bool{}
	for life := range 6 {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestChildProcess$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", child, addr, spool, 1_000_000*life))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = io.Discard
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		began, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			begin := sync.OnceFunc(func() { close(began) })
			defer begin() // a child that ended without a fact is found below
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if n, is := strings.CutPrefix(lines.Text(), "kept "); is {
					kept[n] = true
					begin()
				}
			}
		}()
		<-began // its start takes as long as it takes
		time.Sleep(time.Duration(50+rng.IntN(150)) * time.Millisecond)
		if life%2 == 1 {
			killRedis()
			time.Sleep(time.Duration(50+rng.IntN(150)) * time.Millisecond)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-done
		_ = cmd.Wait() // it was killed
		if life%2 == 1 {
			_, killRedis = startRedis()
			rewriteLog(t, addr)
		}
	}
	defer killRedis()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	s := store.New(rdb, "test", store.Limits{})
	if err := s.SpoolIn(spool, 64<<20); err != nil {
		t.Fatal(err)
	}
	go s.Run(t.Context())
	for s.Stats().SpoolBytes > 0 {
		time.Sleep(time.Millisecond)
	}
	s.Close()
	found, twice := map[string]bool{}, 0
	for after := ""; ; {
		page, err := s.Facts(t.Context(), rollout.RunName("demo"), after, 5000)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].ID
		for _, key := range keys(t, page) {
			if found[key] {
				twice++
			}
			found[key] = true
		}
	}
	missing := 0
	for n := range kept {
		if !found[n] {
			missing++
		}
	}
	t.Logf("%d facts were kept, %d are there, %d of them twice", len(kept), len(found), twice)
	if missing > 0 || len(kept) < 100 {
		t.Errorf("%d of %d facts are missing", missing, len(kept))
	}
}

// rewriteLog has a Redis that was restarted write its log anew, and waits until it has.
func rewriteLog(t *testing.T, addr string) {
	t.Helper()
	rdb := redistest.Client(t, addr, 0)
	if err := redisserver.RewriteTornLogs(t.Context(), rdb); err != nil {
		t.Fatal(err)
	}
	written := func(ctx context.Context) error {
		info, err := rdb.Info(ctx, "persistence").Result()
		if err == nil && (strings.Contains(info, "aof_rewrites:0") || !strings.Contains(info, "rewrite_in_progress:0")) {
			err = errors.New("the log is not written anew")
		}
		return err
	}
	if err := retry.Within(t.Context(), time.Minute, 5*time.Millisecond, written); err != nil {
		t.Fatal(err)
	}
}

var _ telemetry.Teller = (*store.Store)(nil)
