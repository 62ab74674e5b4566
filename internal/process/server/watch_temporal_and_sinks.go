package server

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/observe/axiom"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore/delivery"
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

// sinkWatch knows how the delivery to the sinks goes, whichever server delivers. Without a configuration, and never
// used or switched off, a sink is not shown.
type sinkWatch struct {
	store interface {
		SinkStatus(ctx context.Context) (telemetry.SinkStatus, error)
	}
	configured bool // on this server
	last       atomic.Pointer[telemetry.SinkStatus]
}

// How often the store is asked, and how long it may take to answer.
const (
	sinkWatchEvery = 2 * time.Second
	sinkPatience   = time.Second
)

// watch looks until ctx is done; while the store does not answer, what it said last is shown, and grows old.
func (w *sinkWatch) watch(ctx context.Context) {
	for {
		_, _ = w.look(ctx)
		if retry.Pause(ctx, sinkWatchEvery) != nil {
			return
		}
	}
}

// look asks the store now.
func (w *sinkWatch) look(ctx context.Context) ([]telemetry.SinkStatus, error) {
	asking, cancel := context.WithTimeout(ctx, sinkPatience)
	defer cancel()
	status, err := w.store.SinkStatus(asking)
	if err == nil {
		if last := w.last.Load(); last != nil {
			status = afterwards(*last, status)
		}
		w.last.Store(&status)
	}
	return w.now(), err
}

// afterwards is a status as it follows another. Events that were refused, and that the cursor has not passed yet, are
// among the dead letters already and still among those that wait, so that fewer seem to be delivered for a moment: a
// counter that fell would look like one that began again.
func afterwards(last, status telemetry.SinkStatus) telemetry.SinkStatus {
	if twice := last.Delivered - status.Delivered; twice > 0 && twice <= status.Backlog &&
		status.Written >= last.Written {
		status.Delivered += twice
		status.Backlog -= twice
	}
	return status
}

// now is the sinks as they were seen last.
func (w *sinkWatch) now() []telemetry.SinkStatus {
	last := w.last.Load()
	switch {
	case last == nil || last.State == "" && !w.configured:
		return nil
	case last.State == "": // configured, and nobody has delivered yet
		return []telemetry.SinkStatus{{Sink: axiom.Name, State: telemetry.SinkStopped, Since: time.Now(),
			Reason: "no server has begun to deliver yet", Advice: "wait some seconds; then see the servers' logs"}}
	}
	seen := last.Seen(time.Now())
	if seen.State == telemetry.SinkStopped && !w.configured {
		if seen.Backlog == 0 && seen.DeadLetters == 0 || time.Since(seen.UpdatedAt) > delivery.SinkForgotten {
			return nil // switched off: nothing waits for it, or events are not kept for it any more
		}
		seen.Reason = "no server delivers: Axiom is not configured where this was asked"
		seen.Advice = "start a server that has AXIOM_TOKEN and AXIOM_DATASET; or, if it was switched off for good, give up " +
			"what waits: millrace axiom forget"
	}
	return []telemetry.SinkStatus{seen}
}
