package prom_test

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/observe/prom"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// step is a completed step of so many seconds, in which the trainer waited so many.
func step(n rollout.Step, wait, wall float64) steprecord.StepRecord {
	return steprecord.StepRecord{Step: n, Done: true, Trainer: steprecord.StepReport{
		WallSec: wall, Phases: map[steprecord.Phase]float64{steprecord.PhaseWait: wait},
	}}
}

func standing(name rollout.RunName, state runstatus.RunState, latest ...steprecord.StepRecord) prom.Standing {
	status := runstatus.RunStatus{Spec: runspec.Spec{Name: name}, State: state, NextStep: rollout.Step(len(latest)),
		Rollbacks: 2}
	return prom.Standing{
		Runs:    []prom.RunStanding{{Status: status, Since: time.UnixMilli(1_500_250), Latest: latest}},
		Engines: []enginestate.Engine{{ID: "a", State: enginestate.EngineLost}},
		Workers: []enginestate.Worker{{State: enginestate.WorkerAlive}, {State: enginestate.WorkerAbsent}},
	}
}

func TestStanding(t *testing.T) {
	t.Parallel()
	m := prom.New()
	if text := scrape(t, m); strings.Contains(text, "millrace_run_state{") || strings.Contains(text, "millrace_workers{") {
		t.Error("something is shown before anything was read")
	}
	m.Stand(standing("demo", runstatus.RunPaused, step(0, 99, 100), step(1, 5, 10), step(2, 3, 10)))
	m.RedisAnswers(true)
	text := scrape(t, m)
	for _, want := range []string{
		`millrace_run_state{run="demo",state="paused"} 1`, `millrace_run_state{run="demo",state="running"} 0`,
		`millrace_run_next_step{run="demo"} 3`, `millrace_run_rollbacks_total{run="demo"} 2`,
		`millrace_run_progress_timestamp_seconds{run="demo"} 1500.25`,
		`millrace_step_wait_ratio{run="demo",steps="1"} 0.3`,
		`millrace_step_wait_ratio{run="demo",steps="3"} 0`, // the wait before step 0 is the prefill
		`millrace_engine_up{engine="a"} 0`, `millrace_engine_state{engine="a",state="lost"} 1`,
		`millrace_engine_state{engine="a",state="ready"} 0`,
		`millrace_workers{state="alive"} 1`, `millrace_workers{state="stopped"} 0`, `millrace_redis_up 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, `steps="10"`) {
		t.Error("ten steps are shown after three")
	}
}

// A fleet that is scaled shows what is wanted, what there is and what it costs; one that is not shows nothing of it.
func TestScaledFleet(t *testing.T) {
	t.Parallel()
	m := prom.New()
	s := standing("demo", runstatus.RunRunning)
	m.Stand(s)
	if text := scrape(t, m); strings.Contains(text, "millrace_fleet_engines") {
		t.Error("a fleet that nobody scales is shown")
	}
	s.Scaling = &supply.View{At: time.Unix(1500, 0), Provider: "exec", Wanted: 3, Started: 5, Cost: 1.5,
		Trouble: "quota", Actual: scaling.Engines{Starting: 1, Ready: 2}}
	m.Stand(s)
	m.Emit(telemetry.Event{Body: telemetry.FleetScaled{Code: "buys"}})
	text := scrape(t, m)
	for _, want := range []string{
		`millrace_fleet_engines{state="starting"} 1`, `millrace_fleet_engines{state="ready"} 2`,
		`millrace_fleet_engines{state="draining"} 0`, `millrace_fleet_engines_wanted 3`,
		`millrace_fleet_engines_started_total 5`, `millrace_fleet_cost_dollars_total 1.5`,
		`millrace_fleet_provider_trouble{provider="exec"} 1`, `millrace_fleet_sampled_timestamp_seconds 1500`,
		`millrace_fleet_decisions_total{code="buys"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s in\n%s", want, text)
		}
	}
}

// What is gone is not shown: an engine that was removed, a run that is over, and after a while its counters.
func TestWhatIsGoneIsNotShown(t *testing.T) {
	t.Parallel()
	m := prom.New()
	level := telemetry.BufferLevel{StarvedSec: 2, Cause: steprecord.StarvedQueue, Target: 4}
	m.Stand(standing("demo", runstatus.RunRunning))
	m.Emit(telemetry.Event{Engine: "a", Body: telemetry.EngineChanged{State: enginestate.EngineReady}})
	m.Emit(telemetry.Event{Run: "demo", Body: level})
	m.Stand(prom.Standing{})
	m.Emit(telemetry.Event{Run: "demo", Body: telemetry.RunChanged{State: runstatus.RunCompleted}})
	m.Emit(telemetry.Event{Run: "demo", Body: level}) // the last look at it comes late
	text := scrape(t, m)
	for _, gone := range []string{`millrace_engine_up{engine="a"}`, `millrace_engine_state{engine="a"`,
		`millrace_run_state{run="demo"`, `millrace_buffer_target_groups{run="demo"}`, `millrace_alarm{`} {
		if strings.Contains(text, gone) {
			t.Errorf("%s is still there", gone)
		}
	}
	const waited = `millrace_trainer_starved_seconds_total{reason="queue",run="demo"} 4`
	if !strings.Contains(text, waited) {
		t.Errorf("no line %s", waited)
	}
	m.Forget("demo")
	if text := scrape(t, m); strings.Contains(text, `run="demo"`) {
		t.Errorf("a forgotten run is shown:\n%s", text)
	}
}
