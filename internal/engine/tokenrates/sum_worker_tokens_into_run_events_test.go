package tokenrates_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engine/tokenrates"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// worker is a process that answers requests: what it has counted since it began, and what Redis knows of that.
type worker struct {
	id            string
	counted, told map[rollout.RunName]map[rollout.UsagePart]rollout.Usage
}

// TestTheRowsAddUpToTheEnginesCounters: several runs, policy versions and engines; workers that are killed and others
// that take their place, reports that are made twice because their answer was lost, two servers that tell at once and
// one that dies between two tells. Over all rows, every engine's tokens are what it counted, in both directions, less
// what a killed worker had not reported: 2 % at most.
func TestTheRowsAddUpToTheEnginesCounters(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 5))
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	ctx := t.Context()
	counts, events := tokenrates.New(rdb, "test"), store.New(rdb, "test", store.Limits{Recent: 100_000})
	runs := []rollout.RunName{"alpha", "beta", "beta@2"}
	engines := []rollout.EngineID{"e1", "e2", "e3"}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

	engineCounted := map[rollout.EngineID]rollout.Usage{}
	var workers []*worker
	begun := 0
	begin := func() *worker {
		begun++
		return &worker{fmt.Sprintf("w%d", begun), map[rollout.RunName]map[rollout.UsagePart]rollout.Usage{},
			map[rollout.RunName]map[rollout.UsagePart]rollout.Usage{}}
	}
	for range 3 {
		workers = append(workers, begin())
	}
	known := func() (all []enginestate.Worker) {
		for _, w := range workers {
			all = append(all, enginestate.Worker{ID: w.id})
		}
		return all
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for tick := range 600 { // a quarter of a second each
		now = now.Add(250 * time.Millisecond)
		for i, w := range workers {
			for range r.IntN(4) {
				run := runs[r.IntN(len(runs))]
				version := rollout.PolicyVersion(tick/100 + r.IntN(2))
				p := rollout.UsagePart{Engine: engines[r.IntN(len(engines))], Version: version, Adapter: version.Adapter(run)}
				if r.IntN(10) == 0 {
					p.Adapter = "the base model" // names may hold spaces
				}
				u := rollout.Usage{Requests: 1, InputTokens: 500 + r.Int64N(2000), OutputTokens: 1 + r.Int64N(120),
					CachedTokens: r.Int64N(500)}
				if w.counted[run] == nil {
					w.counted[run] = map[rollout.UsagePart]rollout.Usage{}
				}
				w.counted[run][p] = w.counted[run][p].Add(u)
				engineCounted[p.Engine] = engineCounted[p.Engine].Add(u)
			}
			if r.IntN(150) == 0 {
				workers[i] = begin() // killed, with what it had not reported
				continue
			}
			for run, counted := range w.counted {
				ok(counts.Report(ctx, run, w.id, w.told[run], counted))
				if r.IntN(5) == 0 {
					ok(counts.Report(ctx, run, w.id, w.told[run], counted))
				}
				told := map[rollout.UsagePart]rollout.Usage{}
				for p, u := range counted {
					told[p] = u
				}
				w.told[run] = told
			}
		}
		if tick%8 == 0 && r.IntN(6) > 0 {
			for _, run := range runs {
				done := make(chan error, 2)
				for range 2 {
					go func() { done <- counts.Tell(ctx, run, now, known(), false) }()
				}
				ok(<-done)
				ok(<-done)
			}
		}
	}
	got := map[rollout.EngineID]rollout.Usage{}
	for _, run := range runs {
		now = now.Add(time.Second)
		ok(counts.Tell(ctx, run, now, known(), true))
		records, err := events.Recent(ctx, run, "", 100_000)
		ok(err)
		if len(records) == 0 {
			t.Fatal("no rows")
		}
		for _, record := range records {
			e, err := record.Event()
			ok(err)
			b := e.Body.(telemetry.TokenRates)
			if b.Adapter != b.Version.Adapter(run) && b.Adapter != "the base model" || e.Run != run {
				t.Errorf("%s: %+v", e.ID(), b)
			}
			got[e.Engine] = got[e.Engine].Add(rollout.Usage{InputTokens: b.InputTokens, OutputTokens: b.OutputTokens})
		}
	}
	for engine, want := range engineCounted {
		near(t, fmt.Sprintf("%s input", engine), got[engine].InputTokens, want.InputTokens)
		near(t, fmt.Sprintf("%s output", engine), got[engine].OutputTokens, want.OutputTokens)
	}
	if fields := rdb.HKeys(ctx, "test:{alpha}:tokens").Val(); len(fields) > 1+len(workers) {
		t.Errorf("what was told of stays in Redis: %v", fields)
	}
}

func near(t *testing.T, what string, got, want int64) {
	t.Helper()
	if got > want || float64(got) < 0.98*float64(want) {
		t.Errorf("%s: rows say %d, the engine %d", what, got, want)
	}
}

// TestNothingIsKeptOfADeletedRun: a worker that reports late brings nothing back.
func TestNothingIsKeptOfADeletedRun(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	if err := server.Set("test:{demo}:gone", "1"); err != nil {
		t.Fatal(err)
	}
	err := tokenrates.New(rdb, "test").Report(t.Context(), "demo", "w", nil,
		map[rollout.UsagePart]rollout.Usage{{Engine: "e"}: {InputTokens: 3}})
	if err != nil || server.Exists("test:{demo}:tokens") {
		t.Errorf("%v: %v", err, server.Keys())
	}
}
