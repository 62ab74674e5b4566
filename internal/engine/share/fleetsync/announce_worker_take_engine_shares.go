package fleetsync

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch/live"
	"github.com/millrace/millrace/internal/engine/share"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// How long a worker that is not heard of any more counts as there, for people.
const announceFor = 8 * time.Second

// shares is a worker's shares of the engines, and how it announces them.
type shares struct {
	share.Holder
	limited []enginestate.Engine // as the dispatcher was told last
	pace    pace
}

// divide announces what this worker has to do, computes what is due to it, and gives the dispatcher its engines. While
// Redis cannot be reached the worker goes on with the shares that it has.
func (s *Sync) divide(ctx context.Context, engines []enginestate.Engine, changed bool, stats *live.Stats) error {
	err := s.exchange(ctx, engines, stats)
	s.shares.AwaitsCertain = s.Dispatcher.AwaitsCertain()
	limited := s.shares.Limited(engines)
	if changed || !sameLimits(limited, s.shares.limited) {
		s.Dispatcher.SetEngines(limited)
		s.shares.limited = limited
	}
	return err
}

// exchange announces this worker and takes in what the others have announced.
func (s *Sync) exchange(ctx context.Context, engines []enginestate.Engine, stats *live.Stats) error {
	ctx, cancel := context.WithTimeout(ctx, mostHeldFor)
	defer cancel()
	have, demand := &s.shares, s.Dispatcher.Demand()
	lives := have.pace.lives(time.Now())
	announce := func() ([]share.Member, bool, error) {
		return s.Workers.Exchange(ctx, share.Member{
			Worker: s.Self.ID, Demand: demand, Held: have.Held(inFlight(stats)),
			Runs: share.HeldRunLimits(demand, have.Runs), InFlight: inFlight(stats),
		}, lives, announceFor)
	}
	others, continued, err := announce()
	if err != nil {
		return err
	}
	again := have.Heard(time.Now(), engines, others, demand, s.runLimits, continued)
	s.limitRuns()
	if !again {
		return nil
	}
	if others, _, err = announce(); err != nil {
		return err
	}
	have.Taken(engines, others)
	return nil
}

func inFlight(stats *live.Stats) map[rollout.EngineID]int {
	requests := make(map[rollout.EngineID]int, len(stats.Engines))
	for _, e := range stats.Engines {
		requests[e.ID] = e.InFlight
	}
	return requests
}

// Bounds of how long an announcement holds: a worker that died keeps its shares for so long.
const (
	leastHeldFor = time.Second
	mostHeldFor  = 4 * time.Second
)

// pace measures how regularly a worker announces itself. On a machine that is short of processor time announcements
// come late. They must then hold for longer, or the others would take the shares of a live worker.
type pace struct {
	last    time.Time
	longest time.Duration // between two announcements, of late
}

// lives is how long an announcement made now is to hold: four times the longest of the latest gaps.
func (p *pace) lives(now time.Time) time.Duration {
	if !p.last.IsZero() {
		p.longest = max(now.Sub(p.last), p.longest-p.longest/64)
	}
	p.last = now
	return min(mostHeldFor, max(leastHeldFor, 4*p.longest))
}

func sameLimits(a, b []enginestate.Engine) bool {
	return slices.EqualFunc(a, b, func(x, y enginestate.Engine) bool {
		return x.ID == y.ID && x.MaxInFlight == y.MaxInFlight && x.Elsewhere == y.Elsewhere
	})
}

// limitRuns takes this worker's shares of the runs' own limits.
func (s *Sync) limitRuns() {
	if maps.Equal(s.shares.Runs, s.ruledBy) {
		return
	}
	s.ruledBy = s.shares.Runs
	for run, rules := range s.ruled {
		s.setRules(run, rules)
	}
}
