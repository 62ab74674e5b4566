package runsampler

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/run/alarm"
	"github.com/millrace/millrace/internal/store/buffer"
)

// alarmPatience is how long an alarm must last to be reported: engines and workers that are started together are not
// there all at once. Games fail several times before that is an alarm.
const alarmPatience = 10 * time.Second

// alarms reports which alarms are raised and taken back, and answers those that stand.
func (s *Sampler) alarms(ctx context.Context, run runstatus.RunStatus, now time.Time) ([]runstatus.AlarmCode, error) {
	name := run.Spec.Name
	tries, err := s.buffer.AttemptCounts(ctx, name)
	if err != nil {
		return nil, err
	}
	found := map[runstatus.AlarmCode]runstatus.Alarm{}
	var lasts []buffer.StandingAlarm
	var standing []runstatus.AlarmCode
	for _, a := range alarm.Of(alarm.Evidence{Now: now, Run: run, Attempts: tries, Workers: s.alive, Engines: s.engines,
		Scaling: s.scaling}) {
		patience := alarmPatience
		if a.Code == runstatus.AlarmGamesFail {
			patience = 0
		}
		found[a.Code], lasts = a, append(lasts, buffer.StandingAlarm{Alarm: a, Patience: patience})
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
