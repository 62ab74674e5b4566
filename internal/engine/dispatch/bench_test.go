package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// BenchmarkDecisions is one request through the scheduler: submitted, sent, ended; with 8 engines
// that have 512 in flight each and the queue kept at a length.
func BenchmarkDecisions(b *testing.B) {
	for _, queued := range []int{0, 10_000} {
		for _, runs := range []int{1, 4} {
			b.Run(fmt.Sprintf("queued=%d/runs=%d", queued, runs), func(b *testing.B) { benchmarkDecisions(b, queued, runs) })
		}
	}
}

func benchmarkDecisions(b *testing.B, queued, runs int) {
	const engines, limit = 8, 512
	s := New(Config{MaxQueued: queued + 1})
	now := time.Unix(0, 0)
	for i := range engines {
		s.Handle(now, EngineUp{ID: rollout.EngineID(fmt.Sprintf("engine-%d", i)), Limit: limit,
			Models: []string{"run-v1", "run-v2", "base"}})
	}
	names := make([]rollout.RunName, runs)
	for i := range names {
		names[i] = rollout.RunName(fmt.Sprintf("run-%d", i))
	}
	var inFlight []ID // in order of dispatch
	follow := func(commands []Command) {
		for _, c := range commands {
			if sent, ok := c.(Send); ok {
				inFlight = append(inFlight, sent.ID)
			}
		}
	}
	id := ID(0)
	submit := func() {
		id++
		follow(s.Handle(now, Submit{Request{
			ID: id, Model: "run-v1", PromptTokens: 440, OutputTokens: 24, Deadline: now.Add(time.Hour),
			Episode: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: names[id%ID(runs)], Seq: rollout.GroupSeq(id / 42)},
				Sample: int(id % 6)},
		}}))
	}
	for range engines*limit + queued {
		submit()
	}
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(50 * time.Microsecond)
		done := inFlight[0]
		inFlight = inFlight[1:]
		follow(s.Handle(now, TryEnded{ID: done, Try: 1, Outcome: Served, PromptTokens: 441, OutputTokens: 23}))
		submit()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}
