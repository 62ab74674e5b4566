package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/observe/otel"
	"github.com/millrace/millrace/internal/observe/prom"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// metricsFeed feeds Prometheus metrics from the event store, so that a server's /metrics tells what all processes did,
// from the moment it started: counters begin at zero, as Prometheus expects of a new process.
type metricsFeed struct {
	conns   *connections.Set
	metrics *prom.Metrics
	spans   *otel.RunSpans
	leads   func() bool // this server speaks for the deployment
	from    string      // position in every stream
	group   sync.WaitGroup
	reader  standingReader
}

func newMetricsFeed(
	b *connections.Set, metrics *prom.Metrics, leads func() bool, now time.Time,
) *metricsFeed {
	return &metricsFeed{
		conns: b, metrics: metrics, spans: b.Otel.RunSpans(), leads: leads, from: fmt.Sprintf("%d-0", now.UnixMilli()),
		reader: standingReader{steps: b.Buffer, facts: b.Events, known: map[rollout.RunName]*knownRun{}},
	}
}

// lookEvery is how often new runs are looked for.
const lookEvery = 2 * time.Second

// followLinger is how long a run's events are followed after it has ended: its last words may come late.
const followLinger = 30 * time.Second

// forgetAfter is how long the figures of a run that has ended are shown: Prometheus has read them by then.
const forgetAfter = 10 * time.Minute

// followed is a run whose events are followed.
type followed struct {
	active time.Time          // when it was last seen to go on
	from   string             // id of the event after which it is followed
	stop   context.CancelFunc // nil while it is not

	forgotten bool
}

func (m *metricsFeed) run(ctx context.Context) error {
	defer m.group.Wait()
	followedRuns := map[rollout.RunName]*followed{}
	m.follow(ctx, "", m.from)
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		runs, err := m.conns.Buffer.RecentlyActive(ctx)
		if err != nil && ctx.Err() == nil {
			m.conns.Log.Warn("list runs for metrics", "error", err)
		}
		now := time.Now()
		for _, run := range runs {
			name := run.Spec.Name
			m.spans.Began(name, run.StartedAt)
			f := followedRuns[name]
			if f == nil {
				f = &followed{from: m.from}
				followedRuns[name] = f
			}
			if f.stop == nil {
				var own context.Context
				own, f.stop = context.WithCancel(ctx)
				m.follow(own, name, f.from)
			}
			f.active, f.forgotten = now, false
		}
		for name, f := range followedRuns {
			if err == nil && f.stop != nil && now.Sub(f.active) > followLinger {
				f.stop()
				m.spans.Forget(name)
				f.stop, f.from = nil, fmt.Sprintf("%d-0", now.UnixMilli()) // a lost run may be resumed
			}
			if err == nil && !f.forgotten && now.Sub(f.active) > forgetAfter {
				f.forgotten = true
				m.metrics.Forget(name)
			}
		}
		m.stand(ctx, runs, err, now)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// follow feeds one run's events, or the fleet's, until ctx is done. When Redis fails it goes on where it was.
func (m *metricsFeed) follow(ctx context.Context, run rollout.RunName, after string) {
	m.group.Go(func() {
		for ctx.Err() == nil {
			err := m.conns.Events.Follow(ctx, run, after, func(r store.Record) error {
				after = r.ID
				if e, err := r.Event(); err == nil { // an event of a newer version is not ours to count
					m.metrics.Emit(e)
					if m.leads() {
						m.spans.Emit(e)
					}
				}
				return nil
			})
			if ctx.Err() == nil {
				m.conns.Log.Warn("follow events for metrics", "run", run, "error", err)
				_ = retry.Pause(ctx, time.Second) // its only error is the end of ctx
			}
		}
	})
}
