package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/alarm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
)

// levels samples the buffer of every run that goes on. The servers of a deployment take turns: the windows of their
// samples follow each other without gap or overlap, so that seconds waited are counted once, however many servers
// there are.
type levels struct {
	backend *Backend
	emit    telemetry.Emitter
	key     string // of the end of the last window
	log     *slog.Logger

	workers []rollout.Worker // as this turn found them
	engines []rollout.Engine
}

func newLevels(b *Backend, prefix string, emit telemetry.Emitter) *levels {
	return &levels{backend: b, emit: emit, key: prefix + ":levels", log: b.Log}
}

// Rhythm: how often the levels are sampled, how much of that a window has at least, and how much at most: what lies
// before belongs to a time without servers, in which nobody could wait.
const (
	levelEvery   = 2 * time.Second
	leastWindow  = levelEvery * 3 / 4
	longestSince = time.Minute
)

func (l *levels) run(ctx context.Context) error {
	ticker := time.NewTicker(levelEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			if err := l.look(ctx, now); err != nil && ctx.Err() == nil {
				l.log.Warn("sample the buffers", "error", err)
			}
		}
	}
}

// look samples all runs, if it is this server's turn.
func (l *levels) look(ctx context.Context, now time.Time) error {
	from, mine, err := l.turn(ctx, now)
	if err != nil || !mine {
		return err
	}
	runs, err := l.backend.Buffer.Active(ctx)
	if err != nil {
		return err
	}
	l.workers, err = l.backend.Workers.List(ctx)
	if err != nil {
		return err
	}
	if l.engines, err = l.backend.Registry.List(ctx); err != nil {
		return err
	}
	var faults []error
	for _, run := range runs {
		if err := l.sample(ctx, run, from, now); err != nil {
			faults = append(faults, fmt.Errorf("run %s: %w", run.Spec.Name, err))
		}
	}
	return errors.Join(faults...)
}

// turnScript takes the window from the end of the last one until now, and answers where it begins; -1 when it is
// too early, because another server has just looked. A mark from the future, of a clock that was set back, does not
// count. KEYS: mark. ARGV: now, least window, both in ms.
var turnScript = redis.NewScript(`
local last, now = tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(ARGV[1])
if now - last < tonumber(ARGV[2]) and last - now < 60000 then return -1 end
redis.call('SET', KEYS[1], ARGV[1])
return last`)

func (l *levels) turn(ctx context.Context, now time.Time) (from time.Time, mine bool, err error) {
	last, err := turnScript.Run(ctx, l.backend.Redis, []string{l.key}, now.UnixMilli(), leastWindow.Milliseconds()).Int64()
	if err != nil {
		return now, false, fmt.Errorf("take turns with other servers: %w", err)
	}
	if from = time.UnixMilli(last); now.Sub(from) > longestSince || from.After(now) {
		from = now.Add(-levelEvery)
	}
	return from, last >= 0, nil
}

func (l *levels) sample(ctx context.Context, run rollout.RunStatus, from, to time.Time) error {
	name := run.Spec.Name
	counts, err := l.backend.Buffer.Counts(ctx, name)
	if err != nil {
		return err
	}
	asked, err := l.backend.Buffer.Asked(ctx, name)
	if err != nil {
		return err
	}
	standing, err := l.alarms(ctx, run, to)
	if err != nil {
		return err
	}
	l.emit.Emit(telemetry.Event{
		At: to, Run: name, Key: fmt.Sprintf("%s/level/%d", name, to.UnixMilli()),
		Body: telemetry.BufferLevel{
			Counts: counts, Target: int64(run.Spec.Buffer.Outstanding()), StarvedSec: asked.Within(from, to).Seconds(), WindowSec: to.Sub(from).Seconds(),
			Throttle: run.Throttle, Signal: run.Signal, Alarms: standing,
		},
	})
	return nil
}

// patience is how long an alarm must last to be reported: engines and workers that are started together are not
// there all at once. Games fail several times before that is an alarm.
const patience = 10 * time.Second

// alarms reports which alarms are raised and taken back, and answers those that stand.
func (l *levels) alarms(ctx context.Context, run rollout.RunStatus, now time.Time) ([]rollout.AlarmCode, error) {
	name := run.Spec.Name
	tries, err := l.backend.Buffer.Tries(ctx, name)
	if err != nil {
		return nil, err
	}
	found := map[rollout.AlarmCode]rollout.Alarm{}
	lasts := map[rollout.AlarmCode]time.Duration{}
	var standing []rollout.AlarmCode
	for _, a := range alarm.Of(alarm.Evidence{Now: now, Run: run, Tries: tries, Workers: l.workers, Engines: l.engines}) {
		found[a.Code], lasts[a.Code] = a, patience
		if a.Code == rollout.AlarmGamesFail {
			lasts[a.Code] = 0
		}
		standing = append(standing, a.Code)
	}
	raised, ended, err := l.backend.Buffer.StandAlarms(ctx, name, now, lasts)
	if err != nil {
		return nil, err
	}
	for _, code := range raised {
		l.log.Warn("alarm", "run", name, "code", code, "text", found[code].Text, "advice", found[code].Advice)
		l.report(name, now, telemetry.AlarmChanged{Raised: true, Code: code, Text: found[code].Text, Advice: found[code].Advice})
	}
	for _, code := range ended {
		l.log.Info("alarm is over", "run", name, "code", code)
		l.report(name, now, telemetry.AlarmChanged{Code: code})
	}
	return standing, nil
}

func (l *levels) report(run rollout.RunName, now time.Time, change telemetry.AlarmChanged) {
	l.emit.Emit(telemetry.Event{
		At: now, Run: run, Key: fmt.Sprintf("%s/alarm/%s/%d/%t", run, change.Code, now.UnixMilli(), change.Raised), Body: change,
	})
}
