package runsampler

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/run/alarm"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/starvation"
)

// alarms reports which alarms are raised and taken back, and answers those that stand.
func (s *Sampler) alarms(ctx context.Context, run runstatus.RunStatus, now time.Time) ([]runstatus.AlarmCode, error) {
	name := run.Spec.Name
	attempts, err := s.buffer.AttemptCounts(ctx, name)
	if err != nil {
		return nil, err
	}
	trainer, err := s.buffer.TrainerActivity(ctx, name)
	if err != nil {
		return nil, err
	}
	evidence := alarm.Evidence{Now: now, Run: run, Attempts: attempts, Workers: s.alive, Engines: s.engines,
		Scaling: s.scaling, Trainer: trainer}
	if evidence.Unplayed, evidence.UnplayedSince, err = s.mail.Unplayed(ctx, run.Spec); err != nil {
		return nil, err
	}
	found := map[runstatus.AlarmCode]runstatus.Alarm{}
	var lasts []buffer.StandingAlarm
	var standing []runstatus.AlarmCode
	for _, a := range alarm.Of(evidence) {
		found[a.Code], lasts = a, append(lasts, buffer.StandingAlarm{Alarm: a, Patience: alarm.Patience(a.Code)})
		standing = append(standing, a.Code)
	}
	raised, ended, err := s.buffer.StandAlarms(ctx, name, now, lasts)
	if err != nil {
		return nil, err
	}
	for _, code := range raised {
		s.log.Warn("alarm", "run", name, "code", code, "text", found[code].Text, "advice", found[code].Advice)
	}
	for _, code := range ended {
		s.log.Info("alarm is over", "run", name, "code", code)
	}
	return standing, nil
}

// Waits is how far the account of a run's waits has come, and what there is to continue it with. Missing is left to the
// caller.
func Waits(ctx context.Context, b *buffer.Store, run rollout.RunName, now time.Time) (starvation.Series,
	starvation.Seen, error) {
	text, asked, err := b.StarvationSeries(ctx, run)
	if err != nil {
		return starvation.Series{}, starvation.Seen{}, fmt.Errorf("read the account of waits: %w", err)
	}
	seen := starvation.Seen{Now: now, Next: asked.Next, Asked: asked.First, Last: asked.Last}
	series := starvation.Series{Step: asked.Step, Record: asked.Next}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &series); err != nil {
			return starvation.Series{}, seen, fmt.Errorf("read the account of waits: %w", err)
		}
	}
	from := series.From()
	seen.Until = min(asked.Step, from+starvation.MaxSteps)
	seen.More = seen.Until < asked.Step
	if seen.Until > from {
		if seen.Steps, err = b.Steps(ctx, run, from, int(seen.Until-from)); err != nil {
			return series, seen, fmt.Errorf("read the account of waits: %w", err)
		}
	}
	return series, seen, nil
}

// continueWaits keeps the account, unless another server has continued it meanwhile, and tells of it.
func (s *Sampler) continueWaits(ctx context.Context, run rollout.RunName, was, next starvation.Series,
	closed []starvation.Counted, events []telemetry.Event) error {
	series, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("continue the account of waits: %w", err)
	}
	seconds := map[rollout.Step]map[steprecord.StarvationCause]float64{}
	for _, c := range closed {
		seconds[c.Step] = c.Sec
	}
	_, err = s.buffer.ContinueStarvation(ctx, run, was.Revision, series, seconds, events)
	return err
}
