// Package runsampler samples every active run: how full its buffer is, how long its trainer has starved, and which
// alarms stand. Start reading at Sampler.
package runsampler

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/tokenrates"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling/scaledfleet"
	"github.com/millrace/millrace/internal/scaling/supply"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/lease"
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
		tokens: tokenrates.New(rdb, prefix), emit: emit, log: log,
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

// windAtOnce bounds how many runs are wound up in a turn: the first time it may be all that have ever ended.
const windAtOnce = 256

// windUpAll winds up the runs that are over.
func (s *Sampler) windUpAll(ctx context.Context, now time.Time) error {
	runs, err := s.buffer.Winding(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for i := range min(windAtOnce, len(runs)) {
		run := runs[(s.wound+i)%len(runs)] // others each turn, should some of them fail again and again
		if err := s.windUp(ctx, run, now); err != nil {
			faults = append(faults, fmt.Errorf("run %s: %w", run, err))
		}
	}
	s.wound += windAtOnce
	return errors.Join(faults...)
}

// lastWords is how long after the end of a run workers may still report what its last requests have used.
const lastWords = 15 * time.Second

// windUp writes the remaining facts of a run that is over. Then the run is not looked at any more.
func (s *Sampler) windUp(ctx context.Context, run rollout.RunName, now time.Time) error {
	done, err := s.finish(ctx, run, now)
	if err == nil && done {
		var status runstatus.RunStatus
		status, err = s.buffer.Status(ctx, run)
		done = now.Sub(status.EndedAt) > lastWords
	}
	if rollout.Refused(err, rollout.NoSuchRun) {
		done, err = true, nil
	}
	if err != nil || !done {
		return err
	}
	return s.buffer.WoundUp(ctx, run)
}

// finish continues the account of a run that is over: the record of its last step is compared, too.
func (s *Sampler) finish(ctx context.Context, run rollout.RunName, now time.Time) (done bool, err error) {
	was, seen, err := Waits(ctx, s.buffer, run, now)
	if err != nil {
		return false, err
	}
	seen.Asked = time.Time{} // no batch is given out any more
	if was.Complete(seen) {
		return true, s.tokens.Tell(ctx, run, now, s.alive, true)
	}
	counts, err := s.buffer.Counts(ctx, run)
	if err != nil {
		return false, err
	}
	next, spans, closed := was.Next(seen)
	events := levels(run, now, telemetry.BufferLevel{Counts: counts}, spans)
	return false, s.continueWaits(ctx, run, was, next, closed, events[:len(events)-1])
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

// evidence is the state of a run's missing groups.
func (s *Sampler) evidence(ctx context.Context, run runstatus.RunStatus) (starvation.Evidence, error) {
	awaited, err := s.buffer.Awaited(ctx, run.Spec.Name, mostAwaited)
	if err != nil {
		return starvation.Evidence{}, err
	}
	e := starvation.Evidence{
		Need: awaited.Need, Ready: awaited.Ready, Launch: awaited.Launch,
		Samples: run.Spec.Group.Samples, Engines: s.engines, Starting: starting(s.scaling, s.engines),
	}
	for _, g := range awaited.Playing {
		e.Playing = append(e.Playing, starvation.Group(g))
	}
	for _, w := range s.alive {
		if w.State != enginestate.WorkerAlive || w.Requests == nil {
			continue
		}
		e.Reported = true
		c := w.Requests[run.Spec.Name]
		e.Requests.Queued += c.Queued
		e.Requests.InFlight += c.InFlight
	}
	for _, p := range run.Policies {
		switch p.State {
		case runstatus.PolicyServing:
			e.Adapters = []string{p.Adapter} // the newest
		case runstatus.PolicyLoading:
			e.Loading = append(e.Loading, p.Adapter)
		case runstatus.PolicyRejected, runstatus.PolicyRetired:
		}
	}
	return e, nil
}

// starting is the requests at a time that engines will take which were bought and are not in the fleet yet.
func starting(v *supply.View, engines []enginestate.Engine) int {
	if v == nil {
		return 0
	}
	places := 0
	for i := range v.Engines {
		bought := &v.Engines[i]
		known := slices.ContainsFunc(engines, func(e enginestate.Engine) bool { return e.ID == bought.ID })
		if bought.State == enginestate.EngineStarting && !known {
			places += cmp.Or(bought.Instance.MaxInFlight, v.Sample.Slots, fleet.DefaultMaxInFlight)
		}
	}
	return places
}

// mostAwaited bounds how many groups of a batch are looked at.
const mostAwaited = 256
