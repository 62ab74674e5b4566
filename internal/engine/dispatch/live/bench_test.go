package live

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// BenchmarkOverhead is what the dispatcher adds to a request: from Complete's call to its return, less the
// time inside the engine, with 8 engines that have 512 requests in flight each.
func BenchmarkOverhead(b *testing.B) {
	const engines, limit = 8, 512
	d := New(Config{Clients: func(enginestate.Engine) Engine { return sleeper{} }})
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(ctx) })
	defer func() { cancel(); running.Wait() }()
	var list []enginestate.Engine
	for i := range engines {
		list = append(list, enginestate.Engine{ID: rollout.EngineID('a' + rune(i)), URL: "x", State: enginestate.EngineReady,
			MaxInFlight: limit, Adapters: []string{"r-v1"}})
	}
	d.SetEngines(list)

	overheads := make([]time.Duration, b.N)
	var next atomic.Int64
	var callers sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for i := range engines * limit {
		callers.Go(func() {
			for n := int(next.Add(1)) - 1; n < b.N; n = int(next.Add(1)) - 1 {
				began := time.Now()
				req := turn("q", n/42, i)
				req.Seed = int64(n)
				answer, err := d.Complete(ctx, req)
				if err != nil {
					b.Error(err)
					return
				}
				overheads[n] = time.Since(began) - time.Duration(answer.Timing.ExecSec*float64(time.Second))
			}
		})
	}
	callers.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	if b.N < 2*engines*limit {
		return // all within the burst of the start
	}
	steady := overheads[engines*limit:]
	slices.Sort(steady)
	b.ReportMetric(float64(steady[len(steady)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(steady[len(steady)*99/100].Microseconds()), "p99-µs")
}

// sleeper is an engine without cost. Its latencies differ, for otherwise all requests would end at once, time and
// again.
type sleeper struct{}

func (sleeper) Health(context.Context) error { return nil }

func (sleeper) Complete(_ context.Context, req rollout.Request) (rollout.Completion, error) {
	time.Sleep(250*time.Millisecond + time.Duration(req.Seed*7919%500)*time.Millisecond)
	return rollout.Completion{Model: req.Model, PromptTokenIDs: make([]int32, 440), TokenIDs: make([]int32, 24)}, nil
}
