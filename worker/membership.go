package worker

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/dispatch/live"
	"github.com/millrace/millrace/internal/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/workerregistry"
)

// membership keeps this worker's dispatcher in step with the fleet: it announces the worker, and gives the dispatcher
// the engines as the registry sees them, with this worker's share of each one's in-flight limit.
type membership struct {
	id         string
	self       rollout.Worker // as it is from its start on
	playing    func() map[rollout.RunName]int
	registry   *workerregistry.Registry
	fleet      *fleet.Registry
	runs       runLister
	dispatcher *live.Dispatcher
	log        *slog.Logger

	watch   *fleet.Watch
	sharers []string                           // the workers that the engines were last shared with
	ruled   map[rollout.RunName]bool           // runs whose rules the dispatcher has
	told    map[rollout.EngineID]rollout.Usage // what the registry knows of this worker's work
}

type runLister interface {
	Active(ctx context.Context) ([]rollout.RunStatus, error)
}

// Rhythm: how fast a new adapter or a lost engine is noticed, how fast a run's dispatch rules are, and how long a
// dead worker keeps its share.
const (
	syncEvery     = 250 * time.Millisecond
	announceEvery = time.Second
	announceFor   = 8 * time.Second
)

func (m *membership) run(ctx context.Context) error {
	defer m.leave()
	m.watch = m.fleet.Watch()
	ticker := time.NewTicker(syncEvery)
	defer ticker.Stop()
	var announced time.Time
	if err := m.registry.ForgetGone(ctx); err != nil && ctx.Err() == nil {
		m.log.Warn("forget workers that are gone", "error", err)
	}
	for {
		if time.Since(announced) >= announceEvery {
			if err := m.registry.Announce(ctx, m.id, announceFor); err != nil && ctx.Err() == nil {
				m.log.Warn("announce this worker", "error", err)
			}
			if err := m.describe(ctx, rollout.WorkerAlive); err != nil && ctx.Err() == nil {
				m.log.Warn("describe this worker", "error", err)
			}
			if err := m.rules(ctx); err != nil && ctx.Err() == nil {
				m.log.Warn("read the runs' dispatch rules", "error", err)
			}
			announced = time.Now()
		}
		// When Redis is away the dispatcher goes on with the engines it knows.
		if err := m.sync(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("read the fleet", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// describe tells people what this worker is and does.
func (m *membership) describe(ctx context.Context, state rollout.WorkerState) error {
	w := m.self
	w.State, w.ByRun = state, m.playing()
	for _, games := range w.ByRun {
		w.Games += games
	}
	for _, b := range m.dispatcher.Snapshot().Breakers {
		w.Breakers = append(w.Breakers, rollout.Breaker{Engine: b.Engine, Run: b.Run, Reason: b.Reason, Since: b.Since.UTC(), NextProbe: b.ProbeAt.UTC()})
	}
	return m.registry.Describe(ctx, w)
}

func (m *membership) sync(ctx context.Context) error {
	engines, changed, err := m.watch.Engines(ctx)
	if err != nil {
		return err
	}
	workers, err := m.registry.Alive(ctx)
	if err != nil {
		return err
	}
	if changed || !slices.Equal(workers, m.sharers) {
		m.dispatcher.SetEngines(workerregistry.Share(engines, m.id, workers))
		m.sharers = workers
	}
	stats := m.dispatcher.Snapshot()
	if err := m.registry.ReportQueue(ctx, m.id, stats.Queued); err != nil {
		return err
	}
	return m.tell(ctx, &stats)
}

// tell reports what this worker's requests have used, if it is more than the registry knows.
func (m *membership) tell(ctx context.Context, stats *live.Stats) error {
	used := make(map[rollout.EngineID]rollout.Usage, len(stats.ByEngine))
	for id, t := range stats.ByEngine {
		used[id] = t.Usage
	}
	if maps.Equal(used, m.told) {
		return nil
	}
	if err := m.registry.ReportUsage(ctx, m.id, m.told, used); err != nil {
		return err
	}
	m.told = used
	return nil
}

// rules gives the dispatcher the dispatch rules of every run that goes on, with this worker's part of a run's own
// limit, and lets it forget the others.
func (m *membership) rules(ctx context.Context) error {
	runs, err := m.runs.Active(ctx)
	if err != nil {
		return err
	}
	workers, err := m.registry.Alive(ctx)
	if err != nil {
		return err
	}
	active := make(map[rollout.RunName]bool, len(runs))
	for _, run := range runs {
		name := run.Spec.Name
		active[name] = true
		rules := run.Spec.Dispatch
		if most := rules.MaxInFlightPerEngine; most > 0 {
			rules.MaxInFlightPerEngine = max(1, most/max(1, len(workers)))
		}
		m.dispatcher.SetRules(name, rules)
		m.ruled[name] = true
	}
	for name := range m.ruled {
		if !active[name] {
			m.dispatcher.Forget(name)
			delete(m.ruled, name)
		}
	}
	return nil
}

// leave tells of the last requests, and gives the others this worker's share at once.
func (m *membership) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	stats := m.dispatcher.Snapshot()
	if err := m.tell(ctx, &stats); err != nil {
		m.log.Warn("report the last requests", "error", err)
	}
	if err := m.registry.Leave(ctx, m.id); err != nil {
		m.log.Warn("leave the fleet", "error", err)
	}
	if err := m.describe(ctx, rollout.WorkerStopped); err != nil {
		m.log.Warn("say that this worker stops", "error", err)
	}
}
