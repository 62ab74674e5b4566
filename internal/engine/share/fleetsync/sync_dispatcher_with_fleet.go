// Package fleetsync keeps one worker's dispatcher in step with the fleet: engines, shares and dispatch rules one way,
// use of the engines the other. Start reading at Sync.
package fleetsync

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch/live"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/engine/tokenrates"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Sync announces a worker, and gives its dispatcher the engines as the registry sees them, with the worker's share of
// each one's in-flight limit.
type Sync struct {
	Self       enginestate.Worker             // as it is from its start on
	Playing    func() map[rollout.RunName]int // games in progress
	Models     func() []enginestate.ModelUse  // the same games by the models that they were begun with
	Workers    *workerregistry.Registry
	Fleet      *fleet.Registry
	Runs       activeRuns
	Tokens     *tokenrates.Counts
	Dispatcher *live.Dispatcher
	Log        *slog.Logger

	described atomic.Pointer[enginestate.Worker]
	seen      atomic.Pointer[[]enginestate.Engine] // nil: nothing was read yet
	watch     *fleet.Watch
	shares    shares
	ruled     map[rollout.RunName]runspec.Dispatch                    // rules that the dispatcher has, without limits
	runLimits map[rollout.RunName]int                                 // the runs' own limits on each engine
	ruledBy   map[rollout.RunName]int                                 // this worker's shares of these limits, in force
	reported  map[rollout.EngineID]rollout.Usage                      // what the registry knows of this worker's work
	tokens    map[rollout.RunName]map[rollout.UsagePart]rollout.Usage // what the token counts know of it
}

// activeRuns is what Sync needs of the buffer.
type activeRuns interface {
	RecentlyActive(ctx context.Context) ([]runstatus.RunStatus, error)
}

// Rhythm: how fast a new adapter, a lost engine or another worker's demand is noticed, and how fast a run's dispatch
// rules are.
const (
	syncEvery     = 250 * time.Millisecond
	describeEvery = time.Second
)

// Run keeps them in step until ctx is done.
func (s *Sync) Run(ctx context.Context) error {
	s.ruled, s.tokens = map[rollout.RunName]runspec.Dispatch{}, map[rollout.RunName]map[rollout.UsagePart]rollout.Usage{}
	defer s.leave()
	s.watch, s.shares.Worker = s.Fleet.Watch(), s.Self.ID
	ticker := time.NewTicker(syncEvery)
	defer ticker.Stop()
	var described time.Time
	if err := s.Workers.ForgetGone(ctx); err != nil && ctx.Err() == nil {
		s.Log.Warn("forget workers that are gone", "error", err)
	}
	for {
		if time.Since(described) >= describeEvery {
			if err := s.describe(ctx, enginestate.WorkerAlive); err != nil && ctx.Err() == nil {
				s.Log.Warn("describe this worker", "error", err)
			}
			if err := s.rules(ctx); err != nil && ctx.Err() == nil {
				s.Log.Warn("read the runs' dispatch rules", "error", err)
			}
			described = time.Now()
		}
		// When Redis is away the dispatcher goes on with the engines it knows.
		if err := s.sync(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("read the fleet", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (s *Sync) sync(ctx context.Context) error {
	engines, changed, err := s.watch.Engines(ctx)
	if err != nil {
		return err
	}
	if changed { // the first time, too
		s.seen.Store(&engines)
	}
	stats := s.Dispatcher.Snapshot()
	if err := s.divide(ctx, engines, changed, &stats); err != nil {
		return err
	}
	if err := s.Workers.ReportQueue(ctx, s.Self.ID, stats.Queued); err != nil {
		return err
	}
	return s.reportUsage(ctx, &stats)
}

// Engines is every engine as it was seen last; nil before the first look. It may be called at any time. The caller must
// not change it.
func (s *Sync) Engines() []enginestate.Engine {
	if seen := s.seen.Load(); seen != nil {
		return *seen
	}
	return nil
}

// rules gives the dispatcher the dispatch rules of every active run, and lets it forget the others.
func (s *Sync) rules(ctx context.Context) error {
	runs, err := s.Runs.RecentlyActive(ctx)
	if err != nil {
		return err
	}
	s.runLimits = make(map[rollout.RunName]int)
	active := make(map[rollout.RunName]bool, len(runs))
	for _, run := range runs {
		name := run.Spec.Name
		active[name], s.ruled[name] = true, run.Spec.Dispatch
		if most := run.MaxInFlight(); most > 0 {
			s.runLimits[name] = most
		}
		s.setRules(name, run.Spec.Dispatch)
	}
	for name := range s.ruled {
		if !active[name] {
			s.Dispatcher.Forget(name)
			delete(s.ruled, name)
			delete(s.tokens, name)
		}
	}
	return nil
}

// leave reports the last requests, and gives the others this worker's share at once.
func (s *Sync) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	stats := s.Dispatcher.Snapshot()
	if err := s.reportUsage(ctx, &stats); err != nil {
		s.Log.Warn("report the last requests", "error", err)
	}
	if err := s.Workers.Leave(ctx, s.Self.ID); err != nil {
		s.Log.Warn("leave the fleet", "error", err)
	}
	if err := s.describe(ctx, enginestate.WorkerStopped); err != nil {
		s.Log.Warn("say that this worker stops", "error", err)
	}
}

// setRules gives the dispatcher a run's dispatch rules, with this worker's share of the run's own limit.
func (s *Sync) setRules(run rollout.RunName, rules runspec.Dispatch) {
	rules.MaxInFlightPerEngine = 0
	if s.runLimits[run] > 0 {
		rules.MaxInFlightPerEngine = max(1, s.shares.Runs[run])
	}
	s.Dispatcher.SetRules(run, rules)
}
