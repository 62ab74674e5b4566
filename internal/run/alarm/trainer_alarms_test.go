package alarm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
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

// TestStalled: whatever the reason is, a trainer that waits while no game ends is told of.
func TestStalled(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	asks := runstatus.TrainerActivity{Step: 12, Next: 12, First: ago(time.Hour), Last: now, Heard: now}
	left := asks
	left.Last = ago(time.Minute)
	fresh := asks
	fresh.First = ago(20 * time.Minute)
	for _, tt := range []struct {
		name    string
		state   runstatus.RunState
		trainer runstatus.TrainerActivity
		ended   time.Time // zero: no game has
		fail    bool
		want    string // empty: no alarm of this kind
	}{
		{"no game has ended for half an hour", runstatus.RunRunning, asks, ago(31 * time.Minute), false,
			"the trainer waits for step 12, and no game has ended for 31 min; one may take 15m0s"},
		{"none has ever ended", runstatus.RunRunning, asks, time.Time{}, false, "no game has ended for 60 min"},
		{"games end, and batches are slow", runstatus.RunRunning, asks, ago(29 * time.Minute), false, ""},
		{"the trainer has only just begun to wait", runstatus.RunRunning, fresh, ago(time.Hour), false, ""},
		{"the trainer asked and is gone", runstatus.RunRunning, left, ago(time.Hour), false, ""},
		{"the run is paused", runstatus.RunPaused, asks, ago(time.Hour), false, ""},
		{"another alarm says why", runstatus.RunRunning, asks, ago(time.Hour), true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			engine := enginestate.Engine{State: enginestate.EngineReady}
			if tt.fail {
				engine.State = enginestate.EngineLost
			}
			alarms := alarm.Of(alarm.Evidence{Now: now, Trainer: tt.trainer,
				Attempts: runstatus.AttemptCounts{EndedAt: tt.ended},
				Run: runstatus.RunStatus{State: tt.state, StartedAt: ago(2 * time.Hour),
					Spec: runspec.Spec{Steps: 200, Timeouts: runspec.Timeouts{Episode: rollout.Duration(15 * time.Minute)}}},
				Engines: []enginestate.Engine{engine}, Workers: []enginestate.Worker{{State: enginestate.WorkerAlive}}})
			got := ""
			for _, a := range alarms {
				if a.Code == runstatus.AlarmStalled {
					got = a.Text
				}
			}
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
