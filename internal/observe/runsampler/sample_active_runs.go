// Package runsampler samples every active run: how full its buffer is, how long its trainer has starved, and which
// alarms stand. Start reading at Sampler.
package runsampler

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engine/tokenrates"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling/scaledfleet"
	"github.com/millrace/millrace/internal/scaling/supply"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/lease"
	"github.com/millrace/millrace/internal/store/mailbox"
	"github.com/millrace/millrace/internal/store/starvation"
)

// Sampler samples the buffer of every active run. One of a deployment's servers does so at a time, and the next one
// goes on where it ended. The account of a run's waits is kept with the run, and one script continues it and writes its
// event. So every second waited is counted once, however many servers there are and whenever one of them dies.
type Sampler struct {
	buffer   *buffer.Store
	registry scaledfleet.Registry
	workers  workerLister
	tokens   *tokenrates.Counts
	mail     *mailbox.Box
	emit     telemetry.Emitter
	turn     turn
	log      *slog.Logger

	alive   []enginestate.Worker // as this turn found them
	engines []enginestate.Engine
	scaling *supply.View // nil: the fleet is not scaled
	wound   int          // runs that were to be wound up in earlier turns
}

// workerLister is what a Sampler needs of the registry of workers.
type workerLister interface {
	List(ctx context.Context) ([]enginestate.Worker, error)
}

// New makes a sampler of the runs of a buffer. The servers of a deployment share the prefix.
func New(
	rdb redis.UniversalClient, prefix string, b *buffer.Store, r scaledfleet.Registry, w workerLister,
	emit telemetry.Emitter, log *slog.Logger,
) *Sampler {
	return &Sampler{
		turn:   turn{lease: lease.Lease{Redis: rdb, Key: prefix + ":sampler-lease"}, owner: rand.Text()},
		buffer: b, registry: r, workers: w,
		tokens: tokenrates.New(rdb, prefix), mail: mailbox.New(rdb, prefix), emit: emit, log: log,
	}
}

// Interval is how often the runs are sampled.
const Interval = 2 * time.Second

// maxWindow is the longest window: before it there was a time without servers.
const maxWindow = time.Minute

// Leads reports whether this server is the one that samples, and speaks for the deployment where one must.
func (s *Sampler) Leads() bool { return s.turn.held() }

// Run samples until ctx is done.
func (s *Sampler) Run(ctx context.Context) error {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	defer s.turn.release(context.WithoutCancel(ctx))
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			if err := s.sampleAll(ctx, now); err != nil && ctx.Err() == nil {
				s.log.Warn("sample the buffers", "error", err)
			}
		}
	}
}

// sampleAll samples all runs, if this server has the lease.
func (s *Sampler) sampleAll(ctx context.Context, now time.Time) error {
	mine, err := s.turn.take(ctx)
	if err != nil || !mine {
		return err
	}
	runs, err := s.buffer.RecentlyActive(ctx)
	if err != nil {
		return err
	}
	s.alive, err = s.workers.List(ctx)
	if err != nil {
		return err
	}
	if s.engines, err = s.registry.List(ctx); err != nil {
		return err
	}
	if s.scaling, err = s.registry.Scaled(ctx); err != nil {
		return err
	}
	var faults []error
	for _, run := range runs {
		if err := s.sample(ctx, run, now); err != nil {
			faults = append(faults, fmt.Errorf("run %s: %w", run.Spec.Name, err))
		}
	}
	return errors.Join(append(faults, s.windUpAll(ctx, now))...)
}

// sample continues the series of a run. If two servers do so at once, the buffer accepts the first.
func (s *Sampler) sample(ctx context.Context, run runstatus.RunStatus, now time.Time) error {
	name := run.Spec.Name
	was, seen, err := Waits(ctx, s.buffer, name, now)
	if err != nil {
		return err
	}
	counts, err := s.buffer.Counts(ctx, name)
	if err != nil {
		return err
	}
	seen.Missing = func() starvation.Evidence {
		evidence, lookErr := s.evidence(ctx, run)
		err = lookErr
		return evidence
	}
	next, spans, closed := was.Next(seen)
	if err != nil {
		return err
	}
	standing, err := s.alarms(ctx, run, now)
	if err != nil {
		return err
	}
	level := telemetry.BufferLevel{
		Counts: counts, Target: int64(run.Spec.Buffer.Outstanding()), WindowSec: window(was.To, now).Seconds(),
		Throttle: run.Throttle, RewardVariance: run.RewardVariance, Alarms: standing,
	}
	if err = s.continueWaits(ctx, name, was, next, closed, levels(name, now, level, spans)); err != nil {
		return err
	}
	return s.tokens.Tell(ctx, name, now, s.alive, false)
}

// window is the time that a sample speaks for. What lies longer before belongs to a time without servers.
func window(from, to time.Time) time.Duration {
	if since := to.Sub(from); since > 0 && since <= maxWindow {
		return since
	}
	return Interval
}

// levels is the events of one look: a sample, which has the seconds of the wait that goes on, and one more for every
// other wait and cause that it tells of. Their ids are the look's, so that one told twice is known.
func levels(
	run rollout.RunName, now time.Time, level telemetry.BufferLevel, spans []starvation.Span,
) []telemetry.Event {
	key := fmt.Sprintf("%s/level/%d", run, now.UnixMilli())
	first := telemetry.Event{At: now, Run: run, Key: key, Body: level}
	var others []telemetry.Event
	for i, span := range spans {
		body := level
		body.Cause, body.Step, body.MadeUp = span.Cause, &spans[i].Step, span.MadeUp
		if span.Prefill() {
			body.PrefillSec = span.Sec
		} else {
			body.StarvedSec = span.Sec
		}
		if i == len(spans)-1 && !span.MadeUp && level.WindowSec > 0 {
			first.Body = body
			continue
		}
		body.WindowSec = 0
		others = append(others, telemetry.Event{
			At: span.At, Run: run, Body: body, Key: fmt.Sprintf("%s/%d/%d", key, span.Step, i),
		})
	}
	return append(others, first)
}
