package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/redistest"
)

// BenchmarkFactsOfAStep is what the facts of a step of 64 groups with 6 games each take in a real Redis, by kind.
func BenchmarkFactsOfAStep(b *testing.B) {
	rdb := redistest.Real(b)
	s := store.New(rdb, "test", store.Limits{})
	ctx := context.Background()
	go s.Run(ctx)
	const steps = 20
	for step := range steps {
		for _, e := range factsOfAStep(step) {
			s.Emit(e)
		}
		for s.Stats().Waiting > 0 {
			time.Sleep(time.Millisecond)
		}
	}
	s.Close()
	for b.Loop() {
	}
	for _, kind := range []string{"rollout_complete", "group_ready", "training_step", "batch_claimed", "adapter_loaded",
		"group_dropped"} {
		n, err := rdb.MemoryUsage(ctx, "test:{demo}:facts:"+kind, 0).Result()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(n)/steps, kind+"-B/step")
	}
}

// BenchmarkReadsForDiagnosis reads the facts that a diagnosis needs of 10,000 steps of 64 groups, beside the games that
// it does not need.
func BenchmarkReadsForDiagnosis(b *testing.B) {
	rdb := redistest.Real(b)
	s := store.New(rdb, "test", store.Limits{})
	ctx := context.Background()
	fill(b, rdb, "adapter_loaded", 40_000, factsOfAStep(0)[0])
	fill(b, rdb, "group_dropped", 20_000, factsOfAStep(0)[4])
	fill(b, rdb, "rollout_complete", 20_000, factsOfAStep(0)[len(factsOfAStep(0))-1])
	for b.Loop() {
		read := 0
		for after := ""; ; {
			page, err := s.Facts(ctx, "demo", after, 5000, "adapter_loaded", "group_dropped", "run_changed", "engine_changed")
			if err != nil {
				b.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			read, after = read+len(page), page[len(page)-1].ID
		}
		if read != 60_000 {
			b.Fatalf("%d facts", read)
		}
	}
}

// fill writes the stream of a kind.
func fill(b *testing.B, rdb redis.UniversalClient, kind string, n int, e telemetry.Event) {
	b.Helper()
	row, err := telemetry.Encode(e)
	if err != nil {
		b.Fatal(err)
	}
	_, err = rdb.Pipelined(b.Context(), func(p redis.Pipeliner) error {
		for i := range n {
			p.XAdd(b.Context(), &redis.XAddArgs{Stream: "test:{demo}:facts:" + kind,
				ID: fmt.Sprintf("%d-%d", 1_700_000_000_000+i, len(kind)), Values: []any{"json", row, "n", fmt.Sprintf("f%d", i)}})
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// factsOfAStep is 4 loads, 2 drops, a claim, a record, and 64 groups of 6 games.
func factsOfAStep(step int) (events []telemetry.Event) {
	at := time.Unix(1_700_000_000+int64(step)*150, 123_000_000).UTC()
	add := func(key string, body telemetry.Body) {
		events = append(events, telemetry.Event{At: at, Run: "demo", Key: fmt.Sprintf("demo/%s/%d", key, step), Body: body})
	}
	for i := range 4 {
		add(fmt.Sprintf("load/%d", i), telemetry.AdapterLoaded{Adapter: fmt.Sprintf("demo-v%d", step),
			Version: rollout.PolicyVersion(step), Sec: 0.8123})
	}
	for i := range 2 {
		add(fmt.Sprintf("drop/%d", i), telemetry.GroupDropped{Seq: rollout.GroupSeq(step), Code: "stale"})
	}
	add("claim", telemetry.BatchClaimed{Step: rollout.Step(step), StarvedSec: 12.345})
	usage := rollout.Usage{Requests: 84, InputTokens: 123456, OutputTokens: 4567, CachedTokens: 100000, ExecSec: 99.123,
		QueueSec: 0.345}
	sec := []float64{61.234, 70.123, 81.456, 77.321, 66.789, 90.111}
	times := rollout.GroupTimes{LaunchedAt: at, StartedAt: at, ReadyAt: at}
	record := steprecord.StepRecord{Step: rollout.Step(step), Done: true}
	for g := range 64 {
		view := steprecord.GroupView{Seq: rollout.GroupSeq(64*step + g), Times: times, EpisodeSec: sec, ModelSec: sec,
			QueueSec: sec, EnvSec: sec, Usage: usage, Phases: []int{8, 9, 8, 7, 9, 8}, Rewards: sec,
			Trained: steprecord.TrainedOn{Trajectories: 42, Sequences: 336,
				Reward:           steprecord.RewardSpread{Mean: 0.14285714285714285, Std: 0.3499271061118826, Max: 1},
				PromptTokens:     steprecord.TokenSpread{Sum: 412345, Min: 1012, Max: 1456},
				CompletionTokens: steprecord.TokenSpread{Sum: 20123, Min: 21, Max: 120}}}
		record.Service.Groups = append(record.Service.Groups, view)
		add(fmt.Sprintf("ready/%d", g), telemetry.GroupReady{Group: view, Trajectories: 42})
		for i := range 6 {
			add(fmt.Sprintf("finished/%d/%d", g, i), telemetry.EpisodeFinished{WallSec: 77.123, ModelSec: 70.5, EnvSec: 1.5,
				QueueSec: 0.3, Phases: 8, Attempts: 1, Usage: usage, Counts: map[string]int64{"holds": 3, "moves": 20}})
		}
	}
	add("step", telemetry.StepCompleted{Record: record})
	last := len(events) - 2 // a game
	events = append(events, events[last])
	return append(events[:last], events[last+1:]...)
}
