package fleetsync

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch/live"
	"github.com/millrace/millrace/internal/kit/version"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Self is what people are told of this process. Its id is readable and unique among the workers.
func Self() enginestate.Worker {
	id, host := "worker", "unknown"
	if name, err := os.Hostname(); err == nil {
		id, host = name, name
	}
	var salt [4]byte
	_, _ = rand.Read(salt[:]) // never fails
	return enginestate.Worker{ID: fmt.Sprintf("%s-%d-%s", id, os.Getpid(), hex.EncodeToString(salt[:])), Host: host,
		Version: version.String(), StartedAt: time.Now().UTC()}
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

// reportUsage reports what this worker's requests have used, if it is more than the registry knows.
func (s *Sync) reportUsage(ctx context.Context, stats *live.Stats) error {
	used := stats.ByEngine
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
