package store_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout/telemetry"
	store "github.com/millrace/millrace/internal/store/eventstore"
)

// TestEmitAllocatesNothing, so that no garbage collection is made to begin by it. It is not parallel, as the
// measurement demands.
func TestEmitAllocatesNothing(t *testing.T) {
	s := store.New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), "test", store.Limits{})
	for name, e := range map[string]telemetry.Event{"fact": fact("demo", 1), "sample": sample("demo", 1)} {
		if n := testing.AllocsPerRun(1000, func() { s.Emit(e) }); n != 0 {
			t.Errorf("a %s: %v allocations", name, n)
		}
	}
}

// BenchmarkEmit is how long it takes to emit a fact while Redis is unavailable and the disk works, is full, or is gone,
// beside how long nothing takes, measured in the same goroutine and in turns: a machine that gives the processor to
// somebody else for a while does so to both. Emit tries to send on a channel and adds to a counter; it holds no lock
// and does no I/O, so that its slowest calls are as slow as nothing at all is.
func BenchmarkEmit(b *testing.B) {
	for name, arrange := range map[string]func(*store.Store, string) error{
		"works": func(s *store.Store, dir string) error { return s.SpoolIn(dir, 1<<30) },
		"full":  func(s *store.Store, dir string) error { return s.SpoolIn(dir, 1) },
		"gone": func(s *store.Store, dir string) error {
			if err := s.SpoolIn(dir, 1<<30); err != nil {
				return err
			}
			return os.RemoveAll(dir)
		},
	} {
		b.Run("disk "+name, func(b *testing.B) {
			s := store.New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1}), "test", store.Limits{})
			if err := arrange(s, b.TempDir()); err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go s.Run(ctx)
			emits, nothings := make([]time.Duration, 0, 8_000_000), make([]time.Duration, 0, 8_000_000)
			e := fact("demo", 1)
			for b.Loop() {
				began := time.Now()
				s.Emit(e)
				between := time.Now()
				emits = append(emits, between.Sub(began))
				nothings = append(nothings, time.Since(between))
			}
			report := func(what string, took []time.Duration) (slowest time.Duration) {
				slices.Sort(took)
				at := func(share float64) time.Duration { return took[int(float64(len(took)-1)*share)] }
				b.ReportMetric(float64(at(0.999).Nanoseconds())/1000, what+"-us-p99.9")
				b.ReportMetric(float64(at(1).Nanoseconds())/1000, what+"-us-max")
				return at(1)
			}
			emit, nothing := report("emit", emits), report("nothing", nothings)
			b.ReportMetric(float64(emit)/float64(nothing), "emit/nothing-max")
		})
	}
}
