package api_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling/supply"
	"github.com/millrace/millrace/internal/store/buffer"
)

// fewRuns is a store with runs that are over and runs that go on.
type fewRuns struct {
	api.Store
	runs, active []runstatus.RunStatus
	broken       error
}

func (e fewRuns) Active(context.Context) ([]runstatus.RunStatus, error) { return e.active, e.broken }

func (fewRuns) Counts(context.Context, rollout.RunName) (n steprecord.BufferCounts, err error) {
	return n, nil
}

func (fewRuns) AttemptCounts(context.Context, rollout.RunName) (n runstatus.AttemptCounts, err error) {
	return n, nil
}

func (fewRuns) TrainerActivity(context.Context, rollout.RunName) (a runstatus.TrainerActivity, err error) {
	return a, nil
}

func (fewRuns) Account(context.Context, rollout.RunName) (a buffer.Account, err error) { return a, nil }

func (e fewRuns) EndedRuns(context.Context, rollout.RunName, int, func(rollout.RunName) bool) (
	[]runstatus.RunStatus, rollout.RunName, error) {
	return e.runs, "", nil
}

// fleetOf is engines that do not change.
type fleetOf struct {
	smallFleet
	engines []enginestate.Engine
	view    supply.View
}

func (f fleetOf) List(context.Context) ([]enginestate.Engine, error) { return f.engines, nil }

func (f fleetOf) Scaling(context.Context) (supply.View, bool, error) { return f.view, true, nil }

// TestConditionsThatNeedSomebody: what is wrong with a deployment is one line a cause, and what is not wrong is none.
func TestConditionsThatNeedSomebody(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC)
	ended := func(state runstatus.RunState, ago time.Duration) runstatus.RunStatus {
		return runstatus.RunStatus{Spec: runspec.Spec{Name: "demo"}, State: state, Reason: "why", NextStep: 3,
			EndedAt: now.Add(-ago)}
	}
	ready := enginestate.Engine{ID: "a", State: enginestate.EngineReady}
	going := []runstatus.RunStatus{{Spec: runspec.Spec{Name: "demo"}, State: runstatus.RunRunning}}
	slow := diagnosis.Report{Severity: diagnosis.SeveritySlow, Brief: "publish 12 %, $0.8/h"}
	minor := diagnosis.Report{Severity: diagnosis.SeverityNote, Brief: "publish 3 %"}
	lost := func(id rollout.EngineID, url string) enginestate.Engine {
		return enginestate.Engine{ID: id, URL: url, State: enginestate.EngineLost, Reason: "no answer from " + url}
	}
	for _, tt := range []struct {
		name    string
		runs    []runstatus.RunStatus
		active  []runstatus.RunStatus
		report  diagnosis.Report
		engines []enginestate.Engine
		view    supply.View
		storage []string
		sink    telemetry.SinkStatus
		broken  error  // Redis
		want    string // what is listed; empty: nothing
	}{
		{name: "all is well", runs: []runstatus.RunStatus{ended(runstatus.RunCompleted, time.Hour),
			ended(runstatus.RunStopped, time.Hour)}, engines: []enginestate.Engine{ready}},
		{name: "a run was lost", runs: []runstatus.RunStatus{ended(runstatus.RunLost, time.Hour)},
			want: "stuck: lost at step 3: why (for 60 min) (go on where it was: millrace run resume demo; or: " +
				"millrace run delete demo)"},
		{name: "a run failed", runs: []runstatus.RunStatus{ended(runstatus.RunFailed, time.Hour)},
			want: "stuck: failed at step 3: why (for 60 min) (see: millrace run show demo; once seen: " +
				"millrace run delete demo, or it is listed for a day)"},
		{name: "long ago", runs: []runstatus.RunStatus{ended(runstatus.RunFailed, 25*time.Hour)}},
		{name: "two engines with one cause", engines: []enginestate.Engine{ready, lost("b", "http://b:1"),
			lost("c", "http://c:2")}, want: "slow: engine b, c: lost: no answer from its address (restart it, " +
			"it joins again by itself; or: millrace engine remove ENGINE)"},
		{name: "an engine without LoRA", engines: []enginestate.Engine{{ID: "b", State: enginestate.EngineReady,
			NoAdapters: "it takes no adapters"}},
			want: "slow: engine b: no run's adapter can be served: it takes no adapters (then start it again; " +
				"it joins by itself)"},
		{name: "a provider without quota", view: supply.View{Provider: "exec", Trouble: "quota"},
			want: "slow: provider exec: quota (see: millrace engine scaling)"},
		{name: "Redis keeps nothing", storage: []string{"appendonly is no"},
			want: "slow: appendonly is no (change its configuration: docs/deploy.md says how)"},
		{name: "no engine is ready: its cause is all that is told", active: going,
			view:    supply.View{Provider: "advise"},
			engines: []enginestate.Engine{lost("b", "http://b:1")}, want: "stuck: engine b: lost: no answer from its " +
				"address (restart it, it joins again by itself; or: millrace engine remove ENGINE)"},
		{name: "a run loses more than its bound", active: going, report: slow, engines: []enginestate.Engine{ready},
			want: "slow: publish 12 %, $0.8/h (see what helps: millrace diagnose demo)"},
		{name: "and less than that", active: going, report: minor, engines: []enginestate.Engine{ready}},
		{name: "a sink that will answer again", sink: telemetry.SinkStatus{Sink: "axiom", State: telemetry.SinkRetrying,
			Reason: "503", Since: now.Add(-time.Minute)}, want: "note: events are not delivered to axiom (retrying): 503 " +
			"(for 60 s) (nothing yet: events are kept, and delivered when it answers)"},
		{name: "Redis does not answer: nothing else is known", broken: errors.New("no route"),
			sink: telemetry.SinkStatus{Sink: "axiom", State: telemetry.SinkRetrying}, want: "stuck: Redis does not answer: " +
				"nothing is played, claimed or recorded (for 0 s) (start it, or check redis.url; the server's log has the " +
				"error. Nothing is to be done about runs: they go on by themselves)"},
		{name: "Redis' disk is full", broken: rollout.Refuse(rollout.Unavailable, "Redis takes no writes: MISCONF disk"),
			want: "stuck: Redis takes no writes: MISCONF disk: nothing is played, claimed or recorded (for 0 s) (do what its " +
				"words ask for, such as room on its disk. Nothing is to be done about runs: they go on by themselves)"},
		{name: "the gravest is first", active: going, report: slow, storage: []string{"appendonly is no"},
			view: supply.View{Provider: "advise"}, want: "stuck: the fleet has no engine (add one: millrace engine add URL); " +
				"slow: appendonly is no (change its configuration: docs/deploy.md says how)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := newServer(api.Config{Listen: "127.0.0.1:0"}, api.Deps{Control: &control{},
				Store:  fewRuns{runs: tt.runs, active: tt.active, broken: tt.broken},
				Events: nilEvents{}, Fleet: fleetOf{engines: tt.engines, view: tt.view}, Workers: oneWorker{},
				Now: func() time.Time { return now }, Storage: func() []string { return tt.storage },
				Log: slog.New(slog.DiscardHandler),
				Sinks: func(context.Context) ([]telemetry.SinkStatus, error) {
					return []telemetry.SinkStatus{{State: telemetry.SinkOK}, tt.sink}[min(1, len(tt.sink.Sink)):][:1], nil
				},
				Diagnose: func(context.Context, rollout.RunName, api.DiagnosisQuery) (any, error) { return tt.report, nil },
				ReadSpec: func([]byte) (s runspec.Spec, err error) { return s, nil }})
			if err != nil {
				t.Fatal(err)
			}
			var status api.DeploymentStatus
			(&answer{t: t, body: ask(t.Context(), s, "GET", "/v1/status").Body.Bytes()}).into(&status)
			var lines []string
			for _, p := range status.Problems {
				lines = append(lines, string(p.Level)+": "+p.What+" ("+p.Advice+")")
			}
			if got := strings.Join(lines, "; "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
