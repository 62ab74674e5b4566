// Package fleetsync keeps one worker's dispatcher in step with the fleet: engines, shares and dispatch rules one way,
// use of the engines the other. Start reading at Sync.
package fleetsync

import (
	"context"
	"log/slog"
	"maps"
	"slices"
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

// Described is this worker as it described itself last. It may be called at any time.
func (s *Sync) Described() enginestate.Worker {
	if w := s.described.Load(); w != nil {
		return *w
	}
	return s.Self
}

// describe publishes what this worker is and does.
func (s *Sync) describe(ctx context.Context, state enginestate.WorkerState) error {
	w := s.Self
	w.State, w.ByRun = state, s.Playing()
	for _, games := range w.ByRun {
		w.Games += games
	}
	stats := s.Dispatcher.Snapshot()
	w.Requests, w.Shares = requestsByRun(&stats), s.shares.Shares
	w.Models = modelUses(s.Dispatcher.ModelUses(), s.Models())
	for _, b := range stats.Breakers {
		w.Breakers = append(w.Breakers, enginestate.Breaker{
			Engine: b.Engine, Run: b.Run, Reason: b.Reason, Since: b.Since.UTC(), NextProbe: b.ProbeAt.UTC(),
		})
	}
	s.described.Store(&w)
	return s.Workers.Describe(ctx, w)
}

// modelUses is requests and games by run and model, together.
func modelUses(requests, games []enginestate.ModelUse) []enginestate.ModelUse {
	for _, g := range games {
		at := slices.IndexFunc(requests, func(r enginestate.ModelUse) bool { return r.Run == g.Run && r.Model == g.Model })
		if at < 0 {
			requests = append(requests, g)
		} else {
			requests[at].Games = g.Games
		}
	}
	return requests
}

// requestsByRun is where the requests of each run are.
func requestsByRun(stats *live.Stats) map[rollout.RunName]enginestate.RequestCounts {
	counts := map[rollout.RunName]enginestate.RequestCounts{}
	for _, r := range stats.Runs {
		if r.Queued > 0 {
			counts[r.Run] = enginestate.RequestCounts{Queued: r.Queued}
		}
	}
	for _, e := range stats.Engines {
		for run, n := range e.Runs {
			c := counts[run]
			c.InFlight += n
			counts[run] = c
		}
	}
	return counts
}

func (s *Sync) sync(ctx context.Context) error {
	engines, changed, err := s.watch.Engines(ctx)
	if err != nil {
		return err
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

// reportUsage reports what this worker's requests have used, if it is more than the registry knows.
func (s *Sync) reportUsage(ctx context.Context, stats *live.Stats) error {
	used := make(map[rollout.EngineID]rollout.Usage, len(stats.ByEngine))
	for id, t := range stats.ByEngine {
		used[id] = t.Usage
	}
	if maps.Equal(used, s.reported) {
		return nil
	}
	if err := s.Workers.ReportUsage(ctx, s.Self.ID, s.reported, used); err != nil {
		return err
	}
	s.reported = used
	return s.reportTokens(ctx, stats)
}

// reportTokens reports the same by run, engine, policy version and adapter.
func (s *Sync) reportTokens(ctx context.Context, stats *live.Stats) error {
	for run, t := range stats.ByRun {
		if maps.Equal(t.Work, s.tokens[run]) {
			continue
		}
		if err := s.Tokens.Report(ctx, run, s.Self.ID, s.tokens[run], t.Work); err != nil {
			s.reported = nil // so that the next round comes here
			return err
		}
		s.tokens[run] = t.Work
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
