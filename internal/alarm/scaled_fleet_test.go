package alarm_test

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/alarm"
	"github.com/millrace/millrace/internal/enginepool"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling"
)

// A fleet that scaling wakes is no alarm; one that its provider does not bring is, and one that nobody brings.
func TestNoEngineOfAScaledFleet(t *testing.T) {
	t.Parallel()
	lost := []rollout.Engine{{ID: "a", State: rollout.EngineLost}}
	for _, tt := range []struct {
		name    string
		view    *enginepool.View
		engines []rollout.Engine
		want    string // empty: no alarm
	}{
		{"nobody scales", nil, nil, "the fleet has no engine"},
		{"it sleeps, and will wake", &enginepool.View{Provider: "process"}, nil, ""},
		{"it wakes", &enginepool.View{Provider: "process", Wanted: 2, Actual: scaling.Engines{Starting: 2}}, nil, ""},
		{"its engines are lost", &enginepool.View{Provider: "process", Wanted: 1}, lost, "none of 1 engine is ready"},
		{"and are replaced", &enginepool.View{Provider: "process", Wanted: 1, Actual: scaling.Engines{Starting: 1}}, lost,
			""},
		{"the provider fails", &enginepool.View{Provider: "exec", Wanted: 1, Trouble: "quota"}, nil,
			"exec does not bring one: quota"},
		{"somebody else starts engines", &enginepool.View{Provider: "advise", Wanted: 1}, nil, "the fleet has no engine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := ""
			for _, a := range alarm.Of(alarm.Evidence{Engines: tt.engines, Scaling: tt.view,
				Workers: []rollout.Worker{{State: rollout.WorkerAlive}}}) {
				if a.Code == rollout.AlarmNoEngine {
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
	failed := rollout.AttemptCounts{ByCode: []rollout.FailedAttempts{{Code: rollout.CodeUnserved, InRow: 20}}}
	for _, tt := range []struct {
		name    string
		engines []rollout.Engine
		want    bool
	}{
		{"it starts", []rollout.Engine{{ID: "a", State: rollout.EngineJoining}}, false},
		{"an engine is ready, and has another model", []rollout.Engine{{ID: "a", State: rollout.EngineReady}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			alarms := alarm.Of(alarm.Evidence{Engines: tt.engines, Attempts: failed,
				Scaling: &enginepool.View{Provider: "process", Wanted: 1, Actual: scaling.Engines{Starting: 1}},
				Workers: []rollout.Worker{{State: rollout.WorkerAlive}}})
			if raised := len(alarms) == 1 && alarms[0].Code == rollout.AlarmGamesFail; raised != tt.want {
				t.Errorf("%+v", alarms)
			}
		})
	}
}
