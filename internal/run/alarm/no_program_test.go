package alarm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/run/alarm"
)

// TestNoProgram: games that no program plays are told once that has lasted, and not where workers are what is missing.
func TestNoProgram(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name     string
		unplayed int64
		since    time.Duration
		started  time.Duration
		state    runstatus.RunState
		want     string
	}{
		{"all are played", 0, 0, time.Hour, runstatus.RunRunning, ""},
		{"the run has just begun", 16, 0, 10 * time.Second, runstatus.RunRunning, ""},
		{"none was ever played", 16, 0, time.Minute, runstatus.RunRunning, "no program has leased one yet"},
		{"one was, a moment ago", 16, 5 * time.Second, time.Hour, runstatus.RunRunning, ""},
		{"the programs died", 1, 10 * time.Minute, time.Hour, runstatus.RunRunning, "no program was heard of for 10 min"},
		{"the run is paused", 16, 0, time.Hour, runstatus.RunPaused, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := alarm.Evidence{Now: now, Unplayed: tt.unplayed,
				Run: runstatus.RunStatus{State: tt.state, StartedAt: now.Add(-tt.started),
					Spec: runspec.Spec{Name: "guess", Steps: 200}},
				Engines: []enginestate.Engine{{State: enginestate.EngineReady}},
				Workers: []enginestate.Worker{{State: enginestate.WorkerAlive}}}
			if tt.since > 0 {
				e.UnplayedSince = now.Add(-tt.since)
			}
			alarms := alarm.Of(e)
			switch {
			case tt.want == "" && len(alarms) > 0:
				t.Errorf("got %+v, want none", alarms)
			case tt.want != "" && (len(alarms) != 1 || alarms[0].Code != runstatus.AlarmNoProgram ||
				!strings.Contains(alarms[0].Text, tt.want)):
				t.Errorf("got %+v, want %q", alarms, tt.want)
			}
		})
	}
}
