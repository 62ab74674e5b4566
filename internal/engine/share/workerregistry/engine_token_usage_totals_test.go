package workerregistry_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

func newRedis(t *testing.T) redis.UniversalClient {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// withEngine is a registry beside a fleet that has engine a.
func withEngine(t *testing.T, rdb redis.UniversalClient, now func() time.Time) *workerregistry.Registry {
	t.Helper()
	engines := fleet.NewRegistry(rdb, "test", now)
	if _, err := engines.Add(t.Context(), enginestate.Engine{ID: "a", URL: "http://a:1"}); err != nil {
		t.Fatal(err)
	}
	return workerregistry.New(rdb, "test", now)
}

type usageByEngine = map[rollout.EngineID]rollout.Usage

func TestReportUsage(t *testing.T) {
	t.Parallel()
	used := func(in int64) usageByEngine {
		a := rollout.Usage{InputTokens: in, OutputTokens: in / 10, Requests: in / 100, QueueSec: float64(in) / 1000}
		return usageByEngine{"a": a, "gone": {InputTokens: in}}
	}
	type report struct {
		worker      string
		before, now int64
		leaves      bool // before it reports
	}
	for _, tt := range []struct {
		name    string
		reports []report
		want    int64
	}{
		{"grows", []report{{"w", 0, 100, false}, {"w", 100, 300, false}}, 300},
		{"twice, as after a lost reply", []report{{"w", 0, 100, false}, {"w", 0, 100, false}, {"w", 0, 300, false}}, 300},
		{"two workers", []report{{"w", 0, 100, false}, {"v", 0, 500, false}}, 600},
		{"forgotten while alive", []report{{"w", 0, 100, false}, {"w", 100, 300, true}}, 300},
		{"begun again", []report{{"w", 0, 500, false}, {"w", 0, 200, false}}, 700},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			r := withEngine(t, newRedis(t), time.Now)
			for _, rep := range tt.reports {
				if rep.leaves {
					if err := r.Leave(ctx, rep.worker); err != nil {
						t.Fatal(err)
					}
				}
				if err := r.ReportUsage(ctx, rep.worker, used(rep.before), used(rep.now)); err != nil {
					t.Fatal(err)
				}
			}
			got, err := r.Usage(ctx, "a")
			if want := used(tt.want)["a"]; err != nil || got != want {
				t.Errorf("got %+v, %v; want %+v", got, err, want)
			}
			if other, err := r.Usage(ctx, "gone"); err != nil || other != (rollout.Usage{}) {
				t.Errorf("an engine that is no member has %+v, %v", other, err)
			}
		})
	}
}

// TestADeadWorkersUsageStays lets a worker fall silent, be forgotten, and come back with all that it has told already.
func TestADeadWorkersUsageStays(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	now := time.Unix(1000, 0)
	rdb, setClock := clockedRedis(t)
	setClock(now)
	r := withEngine(t, rdb, func() time.Time { return now })
	report := func(before, used int64) {
		t.Helper()
		if err := r.ReportQueue(ctx, "w", 1); err != nil {
			t.Fatal(err)
		}
		if err := r.ReportUsage(ctx, "w", usageByEngine{"a": {InputTokens: before}},
			usageByEngine{"a": {InputTokens: used}}); err != nil {
			t.Fatal(err)
		}
	}
	total := func(want int64) {
		t.Helper()
		if got, err := r.Usage(ctx, "a"); err != nil || got.InputTokens != want {
			t.Errorf("total %+v, %v; want %d", got, err, want)
		}
	}
	if err := announce(ctx, r, "w", time.Second); err != nil {
		t.Fatal(err)
	}
	report(0, 700)
	now = now.Add(time.Minute)
	setClock(now)
	if n, err := r.Queued(ctx); n != 0 || err != nil {
		t.Fatalf("queued %d, %v; want the worker forgotten", n, err)
	}
	total(700)
	report(700, 900)
	total(900)
}
