package prom_test

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/observe/prom"
	"github.com/millrace/millrace/internal/observe/prom/processmetrics"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

func scrape(t *testing.T, m *prom.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	b, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("status %d, %v: %s", w.Code, err, b)
	}
	return string(b)
}

func TestEventsBecomeMetrics(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	later := func(sec float64) time.Time { return at.Add(time.Duration(sec * float64(time.Second))) }
	step := telemetry.StepCompleted{Record: steprecord.StepRecord{
		Step: 1,
		Trainer: steprecord.StepReport{WallSec: 10, Phases: map[steprecord.Phase]float64{
			steprecord.PhaseWait: 4, steprecord.PhaseTrain: 5, "tensorboard": 1,
		}},
		Service: steprecord.ServiceView{Version: 5, StalenessInFlightMean: 1, StalenessInBufferMean: 0.5, Depth: 2,
			GroupsPerStep: 8, Groups: []steprecord.GroupView{
				{MinVersion: 4, Rewards: []float64{1, 0}}, {MinVersion: 3, Rewards: []float64{1, 1}}}},
	}}
	first := step
	first.Record.Step = 0
	level := func(starved float64, c steprecord.BufferCounts) telemetry.BufferLevel {
		return telemetry.BufferLevel{Counts: c, Target: 16, StarvedSec: starved, WindowSec: 1}
	}
	waits := func(cause steprecord.StarvationCause, starved, prefill float64) telemetry.BufferLevel {
		return telemetry.BufferLevel{Cause: cause, StarvedSec: starved, PrefillSec: prefill}
	}
	for _, tt := range []struct {
		name   string
		bodies []telemetry.Body
		want   []string
	}{
		{"step", []telemetry.Body{step}, []string{
			`millrace_step_duration_seconds_sum{run="demo"} 10`, `millrace_step_phase_seconds_total{phase="wait",run="demo"} 4`,
			`millrace_step_phase_seconds_total{phase="train",run="demo"} 5`,
			`millrace_step_phase_seconds_total{phase="other",run="demo"} 1`,
			`millrace_policy_lag_versions_sum{run="demo"} 3`,
			`millrace_buffer_depth_batches{run="demo"} 2`, `millrace_reward_mean{run="demo"} 0.75`,
			`millrace_policy_lag_mean_versions{place="in_flight",run="demo"} 1`,
			`millrace_policy_lag_mean_versions{place="in_buffer",run="demo"} 0.5`,
		}},
		{"the first step, without the prefill", []telemetry.Body{first}, []string{
			`millrace_step_duration_seconds_sum{run="demo"} 6`,
		}},
		{"buffer", []telemetry.Body{step, level(0, steprecord.BufferCounts{Ready: 12, InFlight: 3, Bytes: 99})}, []string{
			`millrace_buffer_ready_batches{run="demo"} 1.5`, `millrace_buffer_in_flight_groups{run="demo"} 3`,
			`millrace_buffer_groups{run="demo",state="ready"} 12`, `millrace_buffer_target_groups{run="demo"} 16`,
			`millrace_buffer_bytes{run="demo"} 99`,
		}},
		{"throttled", []telemetry.Body{
			telemetry.BufferLevel{Throttle: runstatus.ThrottleStaleness}, telemetry.BufferLevel{
				Throttle: runstatus.ThrottleBytes},
		}, []string{
			`millrace_buffer_throttled{reason="max_bytes",run="demo"} 1`,
			`millrace_buffer_throttled{reason="max_staleness",run="demo"} 0`,
		}},
		{"reward variance", []telemetry.Body{
			telemetry.BufferLevel{RewardVariance: runstatus.RewardVariance{Groups: 32, ZeroVariance: 4}},
			telemetry.RewardVarianceChanged{RewardVariance: runstatus.RewardVariance{Groups: 32, ZeroVariance: 24,
				Collapsed: true}},
		}, []string{`millrace_zero_variance_ratio{run="demo"} 0.75`, `millrace_reward_variance_collapsed{run="demo"} 1`}},
		{"reward variance again", []telemetry.Body{
			telemetry.RewardVarianceChanged{RewardVariance: runstatus.RewardVariance{Groups: 32, ZeroVariance: 24,
				Collapsed: true}}, telemetry.RewardVarianceChanged{RewardVariance: runstatus.RewardVariance{Groups: 32,
				ZeroVariance: 8}},
		}, []string{`millrace_zero_variance_ratio{run="demo"} 0.25`, `millrace_reward_variance_collapsed{run="demo"} 0`}},
		{"starved", []telemetry.Body{
			waits(steprecord.StarvedInference, 1, 0), waits(steprecord.StarvedQueue, 0.5, 0), waits(steprecord.StarvedQueue,
				0.25, 0),
			waits(steprecord.StarvedGated, 0, 3), waits(steprecord.StarvedGated, -1, 0), level(0, steprecord.BufferCounts{}),
		}, []string{
			`millrace_trainer_starved_seconds_total{reason="inference",run="demo"} 1`,
			`millrace_trainer_starved_seconds_total{reason="queue",run="demo"} 0.75`,
			`millrace_trainer_starved_seconds_total{reason="gated",run="demo"} 0`,
			`millrace_trainer_prefill_seconds_total{reason="gated",run="demo"} 3`,
		}},
		{"group", []telemetry.Body{telemetry.GroupReady{Group: steprecord.GroupView{
			Times: rollout.GroupTimes{LaunchedAt: at, StartedAt: later(2), ReadyAt: later(9)}, ModelSec: []float64{5, 6},
			EnvSec: []float64{0.5},
		}}, telemetry.GroupDropped{Code: "stale"}}, []string{
			`millrace_group_duration_seconds_sum{run="demo",stage="queue"} 2`,
			`millrace_group_duration_seconds_sum{run="demo",stage="play"} 7`,
			`millrace_group_duration_seconds_sum{run="demo",stage="model"} 6`,
			`millrace_stale_dropped_total{reason="stale",run="demo"} 1`,
		}},
		{"games", []telemetry.Body{
			telemetry.EpisodeFinished{WallSec: 3}, telemetry.TokenRates{InputTokens: 400, OutputTokens: 20},
			telemetry.EpisodeFailed{Code: "timeout"}, telemetry.EpisodeFailed{Code: "timeout", Final: true},
		}, []string{
			`millrace_tokens_total{direction="input",engine="a",run="demo"} 400`,
			`millrace_tokens_total{direction="output",engine="a",run="demo"} 20`,
			`millrace_episodes_total{result="retried",run="demo"} 1`, `millrace_episodes_total{result="failed",run="demo"} 1`,
		}},
		{"engine", []telemetry.Body{
			telemetry.EngineSample{Load: enginestate.EngineLoad{Running: 4, Waiting: 1, KVUsage: 0.5, InputTPS: 100,
				OutputTPS: 10, WindowSec: 2}},
			telemetry.EngineSample{Load: enginestate.EngineLoad{
				Running: 3, InputTPS: 100, WindowSec: 1, QueueSec: 0.5, UsageInputError: 0.25, UsageOutputError: -0.125,
				UsageWindowSec: 60,
			}},
			telemetry.AdapterLoaded{Adapter: "demo-v1", Sec: 0.7}, telemetry.AdapterLoaded{Adapter: "demo-v2", Failure: "rank"},
			telemetry.PolicyPublished{Policy: runstatus.Policy{Version: 3, State: runstatus.PolicyServing}},
			telemetry.PolicyPublished{Policy: runstatus.Policy{Version: 4, State: runstatus.PolicyRejected}},
		}, []string{
			`millrace_engine_dispatch_queue_seconds{engine="a"} 0.5`,
			`millrace_engine_usage_error_ratio{direction="input",engine="a"} 0.25`,
			`millrace_engine_usage_error_ratio{direction="output",engine="a"} -0.125`,
			`millrace_engine_in_flight{engine="a"} 3`, `millrace_engine_tokens_total{direction="input",engine="a"} 300`,
			`millrace_engine_tokens_total{direction="output",engine="a"} 20`,
			`millrace_engine_adapter_load_seconds_count{engine="a"} 1`,
			`millrace_engine_adapter_load_failures_total{engine="a"} 1`, `millrace_policy_version{run="demo"} 3`,
		}},
		{"dispatch", []telemetry.Body{telemetry.DispatchSample{Rejected: map[rollout.Code]int64{"queue_full": 2}}}, []string{
			`millrace_requests_rejected_total{reason="queue_full"} 2`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := prom.New()
			for _, b := range tt.bodies {
				m.Emit(telemetry.Event{At: at, Run: "demo", Engine: "a", Body: b})
			}
			text := scrape(t, m)
			for _, want := range tt.want {
				if !strings.Contains(text, want+"\n") {
					t.Errorf("no line %s", want)
				}
			}
		})
	}
}

func TestEngineLife(t *testing.T) {
	t.Parallel()
	m := prom.New()
	change := func(sec int64, state enginestate.EngineState) {
		m.Emit(telemetry.Event{At: time.Unix(sec, 0), Engine: "a", Body: telemetry.EngineChanged{State: state}})
	}
	change(100, enginestate.EngineStarting)
	change(107, enginestate.EngineReady)
	change(200, enginestate.EngineLost)
	change(300, enginestate.EngineReady) // a Keeper that moved may have missed the joining
	text := scrape(t, m)
	for _, want := range []string{`millrace_engine_up{engine="a"} 1`,
		`millrace_engine_cold_start_seconds_sum{engine="a"} 7`, `millrace_engine_cold_start_seconds_count{engine="a"} 1`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	change(400, enginestate.EngineDraining)
	if !strings.Contains(scrape(t, m), `millrace_engine_up{engine="a"} 0`) {
		t.Error("a draining engine is up")
	}
}

func TestAUsageErrorThatIsNotKnownIsNotShown(t *testing.T) {
	t.Parallel()
	m := prom.New()
	const name = "millrace_engine_usage_error_ratio{"
	for _, tt := range []struct {
		window float64
		shown  bool
	}{{60, true}, {0, false}} {
		m.Emit(telemetry.Event{Engine: "a",
			Body: telemetry.EngineSample{Load: enginestate.EngineLoad{UsageWindowSec: tt.window}}})
		if shown := strings.Contains(scrape(t, m), name); shown != tt.shown {
			t.Errorf("over %v s: shown is %v", tt.window, shown)
		}
	}
}

func TestARunThatIsOverHasNoLevels(t *testing.T) {
	t.Parallel()
	m := prom.New()
	emit := func(run rollout.RunName, b telemetry.Body) { m.Emit(telemetry.Event{Run: run, Body: b}) }
	for _, run := range []rollout.RunName{"one", "two"} {
		emit(run, telemetry.BufferLevel{
			Counts: steprecord.BufferCounts{Ready: 3}, StarvedSec: 2, Cause: steprecord.StarvedGated,
			Throttle:       runstatus.ThrottleBytes,
			RewardVariance: runstatus.RewardVariance{Groups: 8},
		})
	}
	emit("one", telemetry.RunChanged{State: runstatus.RunCompleted})
	text := scrape(t, m)
	if strings.Contains(text, `millrace_buffer_groups{run="one"`) ||
		!strings.Contains(text, `millrace_buffer_groups{run="two"`) {
		t.Errorf("levels:\n%s", text)
	}
	for _, gauge := range []string{`millrace_buffer_throttled{reason="max_bytes",run="one"}`,
		`millrace_zero_variance_ratio{run="one"}`} {
		if strings.Contains(text, gauge) {
			t.Errorf("%s is still there", gauge)
		}
	}
	if !strings.Contains(text, `millrace_trainer_starved_seconds_total{reason="gated",run="one"} 2`) {
		t.Error("a counter was forgotten")
	}
}

// sinkOf shows a sink of this process.
func sinkOf(name string, is processmetrics.Sink) []prometheus.Collector {
	return processmetrics.WatchSink(name, func() processmetrics.Sink { return is })
}

func TestWatch(t *testing.T) {
	t.Parallel()
	m := prom.New()
	m.Registry().MustRegister(sinkOf("store", processmetrics.Sink{Delivered: 7, Lost: 2, Waiting: 3})...)
	m.Registry().MustRegister(sinkOf("axiom", processmetrics.Sink{Degraded: true})...)
	text := scrape(t, m)
	for _, want := range []string{
		`millrace_sink_events_total{result="delivered",sink="store"} 7`,
		`millrace_sink_events_total{result="lost",sink="store"} 2`,
		`millrace_sink_waiting_events{sink="store"} 3`, `millrace_sink_degraded{sink="axiom"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
}

// TestOneServerShowsTheDeployment: the others show their own metrics alone, and have counted the rest when it is their
// turn.
func TestOneServerShowsTheDeployment(t *testing.T) {
	t.Parallel()
	m := prom.New()
	leads := false
	m.ShowWhole(func() bool { return leads })
	m.Refused("overloaded")
	m.Emit(telemetry.Event{Run: "demo", Body: telemetry.BufferLevel{StarvedSec: 2, Cause: steprecord.StarvedQueue}})
	const own, whole = `millrace_refused_total{reason="overloaded"} 1`,
		`millrace_trainer_starved_seconds_total{reason="queue",run="demo"} 2`
	for _, leads = range []bool{false, true} {
		text := scrape(t, m)
		if !strings.Contains(text, own) || strings.Contains(text, whole) != leads ||
			!strings.Contains(text, "go_goroutines ") || !strings.Contains(text, "process_cpu_seconds_total ") {
			t.Errorf("leads %t:\n%s", leads, text)
		}
	}
}
