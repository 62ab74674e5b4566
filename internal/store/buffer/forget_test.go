package buffer_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/redistest"
)

// TestWhatEverysecMayForget kills a Redis that syncs its append-only file every second, a moment after the last
// call, so that the kill loses nothing; then it cuts the file off where a power cut may have left it: at any byte.
// What was acknowledged last may be forgotten, in its order; what is left is the account as it was at some moment,
// never half of a call, and goes on.
func TestWhatEverysecMayForget(t *testing.T) {
	t.Parallel()
	dir, everysec := t.TempDir(), []string{"--appendonly", "yes", "--appendfsync", "everysec"}
	addr, kill := redistest.Start(t, dir, redistest.Port(t), everysec...)
	f := open(t, redistest.Client(t, addr, 0), spec(2, 9))
	moments, batches := f.moments()
	written(t, f.rdb)
	kill()

	left := filepath.Join(dir, "appendonlydir")
	log, err := filepath.Glob(filepath.Join(left, "*.incr.aof"))
	if err != nil || len(log) != 1 {
		t.Fatalf("%v: append-only files: %v", err, log)
	}
	whole, err := os.ReadFile(log[0])
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(9, 9))
	cuts := []int{len(whole)}
	for range 8 {
		cuts = append(cuts, len(whole)/3+rng.IntN(2*len(whole)/3))
	}
	slices.Sort(cuts)
	least := 0
	for _, cut := range cuts {
		dir := t.TempDir() // a Redis that is confirmed writes its log anew, to other files
		torn := filepath.Join(dir, "appendonlydir")
		if err := os.CopyFS(torn, os.DirFS(left)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(torn, filepath.Base(log[0])), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		addr, kill := redistest.Start(t, dir, redistest.Port(t), everysec...)
		account := recalled(t, redistest.Client(t, addr, 0), batches)
		kill()
		moment := slices.Index(moments, account)
		if moment < least {
			t.Errorf("of the first %d of %d bytes is left what was never so, or moment %d after moment %d: %s", cut, len(whole),
				moment, least, account)
		}
		least = max(least, moment)
	}
	expect(t, "moment that is left after the kill", least, len(moments)-1)
}

// moments is the account after each of some calls, and the batches that were given.
func (f *fixture) moments() (accounts []string, batches map[int]string) {
	f.t.Helper()
	batches = map[int]string{}
	note := func() {
		a, err := f.Account(f.ctx, run)
		f.ok(err)
		a.ReplicationID, a.ConfirmedUnder = "", ""
		accounts = append(accounts, asJSON(f.t, a))
	}
	note()
	for step := range 4 {
		for seq := 3 * step; seq < 3*step+3; seq++ {
			f.launch(0, seq)
			note()
			f.ok(f.SaveCheckpoint(f.ctx, game(seq, 0), 1, checkpoint(1, "a")))
			note()
			if seq%3 == 2 {
				f.ok(f.Discard(f.ctx, ref(seq), "test"))
			} else {
				_, err := f.CommitGroup(f.ctx, group(seq, 0))
				f.ok(err)
			}
			note()
		}
		batches[step] = asJSON(f.t, f.claim(step, 0))
		note()
		f.complete(step, 0)
		note()
	}
	return accounts, batches
}

// written waits until Redis has handed all it acknowledged to the file: while a sync takes long, it holds writes back.
func written(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		info, err := rdb.InfoMap(t.Context(), "persistence").Result()
		if err != nil {
			t.Fatal(err)
		}
		if info["Persistence"]["aof_buffer_length"] == "0" {
			return
		}
		<-look.C
	}
}

// recalled is the account that a Redis came back with. Granted batches must be as they were.
func recalled(t *testing.T, rdb redis.UniversalClient, batches map[int]string) string {
	t.Helper()
	ctx := context.Background()
	s := buffer.New(rdb, buffer.Options{})
	a, err := s.Account(ctx, run)
	if err != nil {
		t.Fatal(err)
	}
	if confirmed, err := s.Confirm(ctx, run, a.Mark.Era, a.ReplicationID); err != nil || !confirmed {
		t.Fatal(confirmed, err)
	}
	for step := max(0, int(a.NextStep)-1); step < int(a.ClaimedTo); step++ {
		b, err := s.Claim(ctx, run, rollout.Step(step), 0, buffer.Share{})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "batch", asJSON(t, b), batches[step])
	}
	a.ReplicationID, a.ConfirmedUnder = "", "" // others after each restart
	return asJSON(t, a)
}
