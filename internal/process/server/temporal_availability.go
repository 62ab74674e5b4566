package server

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/kit/retry"
)

// temporalWatch knows whether Temporal answered when a server last looked. Servers do without it, but nobody can start
// or change a run then: their probes tell, and are never refused because of it.
type temporalWatch struct {
	answers atomic.Bool
}

// How often Temporal is asked, and how long it may take to answer.
const (
	temporalWatchEvery = 5 * time.Second
	temporalPatience   = 3 * time.Second
)

// watch looks until ctx is done.
func (t *temporalWatch) watch(ctx context.Context, look func(context.Context) error, log *slog.Logger) {
	temporal := retry.Outage{
		Log: log, Up: "Temporal answers again",
		Down: "Temporal does not answer; claims and records are served, runs cannot be started or changed until it does",
	}
	for {
		asking, cancel := context.WithTimeout(ctx, temporalPatience)
		err := look(asking)
		cancel()
		if ctx.Err() != nil {
			return
		}
		t.answers.Store(err == nil)
		temporal.Note(time.Now(), err)
		if retry.Pause(ctx, temporalWatchEvery) != nil {
			return
		}
	}
}
