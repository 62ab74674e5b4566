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

// TestTrainerAlarms: a trainer that died and a version that no engine took are told while the games go on.
func TestTrainerAlarms(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC)
	dead := runstatus.TrainerActivity{Step: 118, Next: 117, Generation: 3, Heard: now.Add(-20 * time.Minute), UsualSec: 5}
	between := dead
	between.Next = 118
	policies := func(last runstatus.PolicyState) []runstatus.Policy {
		return []runstatus.Policy{{Version: 1, State: runstatus.PolicyRejected},
			{Version: 2, State: last, Reason: "rank 64 is above 16", PublishedAt: now}}
	}
	for _, tt := range []struct {
		name     string
		state    runstatus.RunState
		trainer  runstatus.TrainerActivity
		policies []runstatus.Policy
		want     string // empty: no alarm
	}{
		{"it works", runstatus.RunRunning, runstatus.TrainerActivity{Step: 4, Heard: now}, nil, ""},
		{"it died in a step", runstatus.RunRunning, dead, nil,
			"the trainer (generation 3) was given step 117 and was not heard of for 20 min (its steps take 5 s)"},
		{"it died between steps", runstatus.RunRunning, between, nil, "has not asked for step 118"},
		{"it ended and said why", runstatus.RunRunning, runstatus.TrainerActivity{Step: 118, Next: 117, Generation: 3,
			Heard: now.Add(-time.Second), Beats: true, Ended: "FloatingPointError: loss nan"}, nil,
			"was given step 117 and ended: FloatingPointError: loss nan"},
		{"it asks again", runstatus.RunRunning, runstatus.TrainerActivity{Step: 118, Next: 118, Generation: 3, First: now,
			Last: now, Heard: now.Add(-time.Second), Beats: true, Ended: "FloatingPointError: loss nan"}, nil, ""},
		{"the run is paused", runstatus.RunPaused, dead, nil, ""},
		{"the run is over", runstatus.RunCompleted, dead, nil, ""},
		{"an earlier version was rejected", runstatus.RunRunning, runstatus.TrainerActivity{}, policies("serving"), ""},
		{"the newest one was", runstatus.RunRunning, runstatus.TrainerActivity{}, policies(runstatus.PolicyRejected),
			"policy version 2 was rejected: rank 64 is above 16"},
		{"an engine does not prove the newest one", runstatus.RunRunning, runstatus.TrainerActivity{},
			policies(runstatus.PolicyLoading), "policy version 2 does not serve yet: rank 64 is above 16"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			alarms := alarm.Of(alarm.Evidence{Now: now, Trainer: tt.trainer,
				Run:     runstatus.RunStatus{State: tt.state, Spec: runspec.Spec{Steps: 200}, Policies: tt.policies},
				Engines: []enginestate.Engine{{State: enginestate.EngineReady}},
				Workers: []enginestate.Worker{{State: enginestate.WorkerAlive}}})
			switch {
			case tt.want == "" && len(alarms) > 0:
				t.Errorf("got %+v, want none", alarms)
			case tt.want != "" && (len(alarms) != 1 || !strings.Contains(alarms[0].Text, tt.want)):
				t.Errorf("got %+v, want %q", alarms, tt.want)
			}
		})
	}
}
