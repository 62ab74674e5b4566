package alarm_test

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/run/alarm"
)

// TestGamesFail: a few failures in a row are an alarm, and more where many games are played; where games wait for
// somebody elsewhere, all of a few games are enough, because each says so once.
func TestGamesFail(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		groups, inRow int64
		code          rollout.Code
		want          bool
	}{
		{2, 4, rollout.CodeScenario, false},
		{2, 5, rollout.CodeScenario, true},
		{100, 9, rollout.CodeScenario, false},
		{100, 10, rollout.CodeScenario, true},
		{2, 3, rollout.CodeEnvironmentUnavailable, false},
		{2, 4, rollout.CodeEnvironmentUnavailable, true},
		{1, 2, rollout.CodePolicyUnavailable, true},
		{100, 9, rollout.CodePolicyUnavailable, false},
	} {
		alarms := alarm.Of(alarm.Evidence{Now: time.Now(),
			Run:      runstatus.RunStatus{Outstanding: tt.groups, Spec: runspec.Spec{Group: runspec.GroupSpec{Samples: 2}}},
			Attempts: runstatus.AttemptCounts{ByCode: []runstatus.FailedAttempts{{Code: tt.code, InRow: tt.inRow}}},
			Workers:  []enginestate.Worker{{State: enginestate.WorkerAlive}},
			Engines:  []enginestate.Engine{{ID: "a", State: enginestate.EngineReady}}})
		if raised := len(alarms) == 1 && alarms[0].Code == runstatus.AlarmGamesFail; raised != tt.want {
			t.Errorf("%+v: %+v", tt, alarms)
		}
	}
}
