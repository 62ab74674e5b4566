package delivery_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/eventstore/delivery"
	"github.com/millrace/millrace/internal/store/redistest"
)

// delivered is a store and its sink.
type delivered struct {
	*store.Store
	*delivery.Sink
}

func opened(rdb redis.UniversalClient, prefix string, limits store.Limits) delivered {
	s := store.New(rdb, prefix, limits)
	return delivered{s, delivery.New(rdb, prefix, s)}
}

// start runs a store until the test ends.
func start(t *testing.T, rdb redis.UniversalClient, limits store.Limits) delivered {
	t.Helper()
	s := opened(rdb, "test", limits)
	go s.Run(context.WithoutCancel(t.Context()))
	t.Cleanup(s.Close)
	return s
}

func fact(run rollout.RunName, n int) telemetry.Event {
	return telemetry.Event{At: time.Unix(int64(n), 0).UTC(), Run: run, Key: fmt.Sprint(n),
		Body: telemetry.GroupDropped{Seq: rollout.GroupSeq(n), Code: "stale"}}
}

func sample(run rollout.RunName, n int) telemetry.Event {
	return telemetry.Event{At: time.Unix(int64(n), 0).UTC(), Run: run, Key: fmt.Sprint(n),
		Body: telemetry.BufferLevel{Target: int64(n)}}
}

func keys(t *testing.T, records []store.Record) []string {
	t.Helper()
	var out []string
	for _, r := range records {
		e, err := r.Event()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Key)
	}
	return out
}

// onBoth runs a test on the embedded Redis and on a real one, if there is one.
func onBoth(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
		t.Cleanup(func() { _ = rdb.Close() })
		test(t, rdb)
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Real(t))
	})
}

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
