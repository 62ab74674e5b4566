package fleet_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/vllm"
)

type usageByEngine = map[rollout.EngineID]rollout.Usage

// answered makes requests one after the other, and returns what the good answers used.
func answered(t *testing.T, client *vllm.Client, requests int) rollout.Usage {
	t.Helper()
	models, err := client.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var used rollout.Usage
	for i := range requests {
		answer, err := client.Complete(t.Context(), rollout.Request{
			ID: fmt.Sprint("q", i), Model: models[0].ID, Prompt: fmt.Sprintf("question %d of many, answered at length:", i),
			Sampling: rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 16}, Seed: int64(i), Timeout: rollout.Duration(time.Minute),
		})
		if err != nil {
			t.Fatal(err)
		}
		used = used.Add(rollout.Usage{
			Requests: 1, InputTokens: int64(len(answer.PromptTokenIDs)), OutputTokens: int64(len(answer.TokenIDs)), QueueSec: 0.25,
		})
	}
	return used
}

// TestUsageIsReconciled goes through a simulated engine's own counters, canaries included: they agree with the
// workers' account to the token, also when a worker has gone, until somebody else uses the engine.
func TestUsageIsReconciled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		engine, client := simulated(t, nil)
		r := newRig(t)
		r.clients["http://sim:8000"] = client
		if _, err := r.registry.Add(ctx, rollout.Engine{ID: "sim", URL: "http://sim:8000"}); err != nil {
			t.Fatal(err)
		}
		r.within(time.Minute, "sim", "ready", in(rollout.EngineReady))
		tell := func(worker string, before, now rollout.Usage) {
			if err := r.registry.ReportUsage(ctx, worker, usageByEngine{"sim": before}, usageByEngine{"sim": now}); err != nil {
				t.Fatal(err)
			}
		}
		agree := func(e rollout.Engine) bool {
			return e.Load.UsageWindowSec > 0 && e.Load.UsageInputError == 0 && e.Load.UsageOutputError == 0
		}

		ours := answered(t, client, 10)
		tell("w1", rollout.Usage{}, ours)
		r.within(3*time.Second, "sim", "seen with its queue time", func(e rollout.Engine) bool { return e.Load.QueueSec == 0.25 })
		time.Sleep(30 * time.Second) // canaries come and go
		r.within(0, "sim", "in agreement", agree)

		if err := r.registry.Leave(ctx, "w1"); err != nil {
			t.Fatal(err)
		}
		tell("w2", rollout.Usage{}, answered(t, client, 10))
		time.Sleep(3 * time.Second)
		r.within(0, "sim", "in agreement after a worker left", agree)

		answered(t, client, 20) // nobody tells of these
		time.Sleep(3 * time.Second)
		about := func(share, want float64) bool { return math.Abs(share-want) < 0.1 }
		r.within(0, "sim", "half unexplained", func(e rollout.Engine) bool {
			return about(e.Load.UsageInputError, 0.5) && about(e.Load.UsageOutputError, 0.5)
		})

		if err := engine.Restart(ctx, time.Second); err != nil {
			t.Fatal(err)
		}
		r.within(time.Minute, "sim", "ready again, with its account opened anew", func(e rollout.Engine) bool {
			return e.State == rollout.EngineReady && agree(e)
		})
	})
}

func TestReportUsage(t *testing.T) {
	t.Parallel()
	used := func(in int64) usageByEngine {
		return usageByEngine{"a": {InputTokens: in, OutputTokens: in / 10, Requests: in / 100, QueueSec: float64(in) / 1000}, "gone": {InputTokens: in}}
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
		{"begun anew", []report{{"w", 0, 500, false}, {"w", 0, 200, false}}, 700},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			r := newRegistry(t)
			if _, err := r.Add(ctx, rollout.Engine{ID: "a", URL: "http://a:1"}); err != nil {
				t.Fatal(err)
			}
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
			want := rollout.Usage{InputTokens: tt.want, OutputTokens: tt.want / 10, Requests: tt.want / 100, QueueSec: float64(tt.want) / 1000}
			if err != nil || got != want {
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
	r := fleet.NewRegistry(newRedis(t), "test", func() time.Time { return now })
	if _, err := r.Add(ctx, rollout.Engine{ID: "a", URL: "http://a:1"}); err != nil {
		t.Fatal(err)
	}
	report := func(before, used int64) {
		t.Helper()
		if err := r.ReportQueue(ctx, "w", 1); err != nil {
			t.Fatal(err)
		}
		if err := r.ReportUsage(ctx, "w", usageByEngine{"a": {InputTokens: before}}, usageByEngine{"a": {InputTokens: used}}); err != nil {
			t.Fatal(err)
		}
	}
	total := func(want int64) {
		t.Helper()
		if got, err := r.Usage(ctx, "a"); err != nil || got.InputTokens != want {
			t.Errorf("total %+v, %v; want %d", got, err, want)
		}
	}
	if err := r.Announce(ctx, "w", time.Second); err != nil {
		t.Fatal(err)
	}
	report(0, 700)
	now = now.Add(time.Minute)
	if n, err := r.Queued(ctx); n != 0 || err != nil {
		t.Fatalf("queued %d, %v; want the worker forgotten", n, err)
	}
	total(700)
	report(700, 900)
	total(900)
}
