package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry/prom"
	"github.com/millrace/millrace/internal/telemetry/store"
)

// scrape feeds Prometheus metrics from the event store, so that a server's /metrics tells what all processes did, from the
// moment it started: counters begin at zero, as Prometheus expects of a new process.
type scrape struct {
	backend *Backend
	metrics *prom.Metrics
	from    string // position in every stream
	group   sync.WaitGroup
}

func newScrape(b *Backend, m *prom.Metrics, now time.Time) *scrape {
	return &scrape{backend: b, metrics: m, from: fmt.Sprintf("%d-0", now.UnixMilli())}
}

// lookEvery is how often new runs are looked for.
const lookEvery = 2 * time.Second

func (s *scrape) run(ctx context.Context) error {
	defer s.group.Wait()
	followed := map[rollout.RunName]bool{}
	s.follow(ctx, "")
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		runs, err := s.backend.Buffer.Runs(ctx)
		if err != nil && ctx.Err() == nil {
			s.backend.Log.Warn("list runs for metrics", "error", err)
		}
		for _, run := range runs {
			if name := run.Spec.Name; !run.State.Over() && !followed[name] {
				followed[name] = true
				s.follow(ctx, name)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// follow feeds one run's events, or the fleet's, until ctx is done. When Redis fails it goes on where it was.
func (s *scrape) follow(ctx context.Context, run rollout.RunName) {
	s.group.Go(func() {
		after := s.from
		for ctx.Err() == nil {
			err := s.backend.Events.Follow(ctx, run, after, func(r store.Record) error {
				after = r.ID
				if e, err := r.Event(); err == nil { // an event of a newer version is not ours to count
					s.metrics.Emit(e)
				}
				return nil
			})
			if ctx.Err() == nil {
				s.backend.Log.Warn("follow events for metrics", "run", run, "error", err)
				_ = pause(ctx, time.Second) // its only error is the end of ctx
			}
		}
	})
}
