package alarm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/run/alarm"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// A fleet that scaling wakes is no alarm; one that its provider does not bring is, and one that nobody brings.
func TestNoEngineOfAScaledFleet(t *testing.T) {
	t.Parallel()
	lost := []enginestate.Engine{{ID: "a", State: enginestate.EngineLost}}
	for _, tt := range []struct {
		name    string
		view    *supply.View
		engines []enginestate.Engine
		want    string // empty: no alarm
	}{
		{"nobody scales", nil, nil, "the fleet has no engine"},
		{"it sleeps, and will wake", &supply.View{Provider: "process"}, nil, ""},
		{"it wakes", &supply.View{Provider: "process", Wanted: 2, Actual: scaling.Engines{Starting: 2}}, nil, ""},
		{"its engines are lost", &supply.View{Provider: "process", Wanted: 1}, lost, "none of 1 engine is ready"},
		{"and are replaced", &supply.View{Provider: "process", Wanted: 1, Actual: scaling.Engines{Starting: 1}}, lost,
			""},
		{"the provider fails", &supply.View{Provider: "exec", Wanted: 1, Trouble: "quota"}, nil,
			"exec does not bring one: quota"},
		{"somebody else starts engines", &supply.View{Provider: "advise", Wanted: 1}, nil, "the fleet has no engine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := ""
			for _, a := range alarm.Of(alarm.Evidence{Now: time.Now(), Engines: tt.engines, Scaling: tt.view,
				Workers: []enginestate.Worker{{State: enginestate.WorkerAlive}}}) {
				if a.Code == runstatus.AlarmNoEngine {
					text = a.Text
				}
			}
			if (text == "") != (tt.want == "") || !strings.Contains(text, tt.want) {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
}

// Games that find no engine while a fleet starts are no alarm; those that find none that has their model are.
func TestGamesWaitForAFleetThatStarts(t *testing.T) {
	t.Parallel()
	failed := runstatus.AttemptCounts{ByCode: []runstatus.FailedAttempts{{Code: rollout.CodeUnserved, InRow: 20}}}
	for _, tt := range []struct {
		name    string
		engines []enginestate.Engine
		want    bool
	}{
		{"it starts", []enginestate.Engine{{ID: "a", State: enginestate.EngineStarting}}, false},
		{"an engine is ready, and has another model", []enginestate.Engine{{ID: "a", State: enginestate.EngineReady}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			alarms := alarm.Of(alarm.Evidence{Now: time.Now(), Engines: tt.engines, Attempts: failed,
				Scaling: &supply.View{Provider: "process", Wanted: 1, Actual: scaling.Engines{Starting: 1}},
				Workers: []enginestate.Worker{{State: enginestate.WorkerAlive}}})
			if raised := len(alarms) == 1 && alarms[0].Code == runstatus.AlarmGamesFail; raised != tt.want {
				t.Errorf("%+v", alarms)
			}
		})
	}
}

// Engines join through workers, and games are played by them: that there is none is all that is told.
func TestNoWorkerExplainsTheRest(t *testing.T) {
	t.Parallel()
	alarms := alarm.Of(alarm.Evidence{Now: time.Now(),
		Engines:  []enginestate.Engine{{ID: "a", State: enginestate.EngineStarting}},
		Attempts: runstatus.AttemptCounts{ByCode: []runstatus.FailedAttempts{{Code: rollout.CodeUnserved, InRow: 20}}}})
	if len(alarms) != 1 || alarms[0].Code != runstatus.AlarmNoWorker {
		t.Errorf("%+v", alarms)
	}
}
