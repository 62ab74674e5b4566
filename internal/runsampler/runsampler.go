// Package runsampler samples every active run: how full its buffer is, how long its trainer has starved, and which
// alarms stand. Start reading at Sampler.
package runsampler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
)

// Sampler samples the buffer of every active run. The servers of a deployment take turns: the windows of their
// samples follow each other without gap or overlap, so that seconds waited are counted once, however many servers
// there are.
type Sampler struct {
	rdb      redis.UniversalClient
	buffer   *buffer.Store
	registry *fleet.Registry
	workers  workerLister
	emit     telemetry.Emitter
	key      string // of the end of the last window
	log      *slog.Logger

	alive   []rollout.Worker // as this turn found them
	engines []rollout.Engine
}

// workerLister is what a Sampler needs of the registry of workers.
type workerLister interface {
	List(ctx context.Context) ([]rollout.Worker, error)
}

// New makes a sampler of the runs of a buffer. The servers of a deployment share the prefix.
func New(
	rdb redis.UniversalClient, prefix string, b *buffer.Store, r *fleet.Registry, w workerLister,
	emit telemetry.Emitter, log *slog.Logger,
) *Sampler {
	return &Sampler{rdb: rdb, buffer: b, registry: r, workers: w, emit: emit, key: prefix + ":levels", log: log}
}

// Interval is how often the runs are sampled.
const Interval = 2 * time.Second

// How long a window is at least, and at most: what lies before belongs to a time without servers, in which nobody
// could wait.
const (
	minWindow = Interval * 3 / 4
	maxWindow = time.Minute
)

// Run samples until ctx is done.
func (s *Sampler) Run(ctx context.Context) error {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
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

// sampleAll samples all runs, if it is this server's turn.
func (s *Sampler) sampleAll(ctx context.Context, now time.Time) error {
	from, mine, err := s.window(ctx, now)
	if err != nil || !mine {
		return err
	}
	runs, err := s.buffer.Active(ctx)
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
	var faults []error
	for _, run := range runs {
		if err := s.sample(ctx, run, from, now); err != nil {
			faults = append(faults, fmt.Errorf("run %s: %w", run.Spec.Name, err))
		}
	}
	return errors.Join(faults...)
}

// windowScript takes the window from the end of the last one until now, and answers where it begins; -1 when it is
// too early, because another server has just looked. A mark from the future, of a clock that was set back, does not
// count. KEYS: mark. ARGV: now, least window, both in ms.
var windowScript = redis.NewScript(`
local last, now = tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(ARGV[1])
if now - last < tonumber(ARGV[2]) and last - now < 60000 then return -1 end
redis.call('SET', KEYS[1], ARGV[1])
return last`)

// window is this server's, if it is its turn.
func (s *Sampler) window(ctx context.Context, now time.Time) (from time.Time, mine bool, err error) {
	last, err := windowScript.Run(ctx, s.rdb, []string{s.key}, now.UnixMilli(), minWindow.Milliseconds()).Int64()
	if err != nil {
		return now, false, fmt.Errorf("take turns with other servers: %w", err)
	}
	if from = time.UnixMilli(last); now.Sub(from) > maxWindow || from.After(now) {
		from = now.Add(-Interval)
	}
	return from, last >= 0, nil
}

func (s *Sampler) sample(ctx context.Context, run rollout.RunStatus, from, to time.Time) error {
	name := run.Spec.Name
	counts, err := s.buffer.Counts(ctx, name)
	if err != nil {
		return err
	}
	asked, err := s.buffer.Asked(ctx, name)
	if err != nil {
		return err
	}
	standing, err := s.alarms(ctx, run, to)
	if err != nil {
		return err
	}
	s.emit.Emit(telemetry.Event{
		At: to, Run: name, Key: fmt.Sprintf("%s/level/%d", name, to.UnixMilli()),
		Body: telemetry.BufferLevel{
			Counts: counts, Target: int64(run.Spec.Buffer.Outstanding()),
			StarvedSec: asked.Within(from, to).Seconds(), WindowSec: to.Sub(from).Seconds(),
			Throttle: run.Throttle, RewardVariance: run.RewardVariance, Alarms: standing,
		},
	})
	return nil
}
