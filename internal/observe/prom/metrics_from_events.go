// Package prom exposes telemetry events as Prometheus metrics. It keeps a registry of its own, takes events as any
// other sink does and knows nothing of where they come from: fed with one process's events it shows that process,
// fed with the store's streams it shows the service.
//
// Labels are bounded: runs, engines and small enums, never a group, an episode or an adapter. Names are a contract with
// dashboards; metrics.json lists them all.
//
// Tokens are counted twice, from two sources that must agree, and under two names so that no sum adds them up: per
// run and engine from the usage of answered requests (millrace_tokens_total), per engine from the engines' own counters
// (millrace_engine_tokens_total). Tokens per second are the rate() of either; rates per call cannot be added.
//
// Start reading at Metrics, then Metrics.Emit.
package prom

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

var _ telemetry.Emitter = (*Metrics)(nil)

// Emit counts an event.
func (m *Metrics) Emit(e telemetry.Event) {
	run, engine := string(e.Run), string(e.Engine)
	switch b := e.Body.(type) {
	case telemetry.Audit: // kept to be read
	case telemetry.RunChanged:
		m.runChanged(e.Run, b.State)
	case telemetry.StepCompleted:
		m.step(e.Run, b.Record)
	case telemetry.RewardVarianceChanged:
		m.rewardVariance(run, b.RewardVariance)
	case telemetry.BatchClaimed: // the level and the step's record tell the same
	case telemetry.BufferLevel:
		m.level(e.Run, b)
	case telemetry.AlarmChanged: // the levels tell which alarms stand
	case telemetry.GroupReady:
		m.group(run, b.Group)
	case telemetry.GroupDropped:
		m.count("stale_dropped_total", 1, run, string(b.Code))
	case telemetry.EpisodeFinished:
		m.count("episodes_total", 1, run, "finished")
		m.observe("episode_duration_seconds", b.WallSec, run)
	case telemetry.EpisodeFailed:
		m.count("episodes_total", 1, run, resultOf(b))
	case telemetry.AdapterLoaded:
		if b.Failure != "" {
			m.count("engine_adapter_load_failures_total", 1, engine)
			return
		}
		m.observe("engine_adapter_load_seconds", b.Sec, engine)
	case telemetry.AdapterChanged, telemetry.SinkChanged, telemetry.Diagnosed: // kept to be read
	case telemetry.FleetScaled:
		m.count("fleet_decisions_total", 1, b.Code)
	case telemetry.FleetMeasured, telemetry.ProviderChanged: // the fleet's standing tells what stands
	case telemetry.PolicyPublished:
		if b.Policy.State == runstatus.PolicyServing {
			m.set("policy_version", float64(b.Policy.Version), run)
		}
	case telemetry.EngineChanged:
		m.engineChanged(e, b)
	case telemetry.EnginePaced: // the engines' own rates tell the same
	case telemetry.BreakerChanged: // the workers' own lists tell which stand, also when one dies
	case telemetry.EngineSample:
		m.engineLoad(engine, b.Load)
	case telemetry.TokenRates:
		m.count("tokens_total", float64(b.InputTokens), run, engine, "input")
		m.count("tokens_total", float64(b.OutputTokens), run, engine, "output")
	case telemetry.DispatchSample:
		for reason, n := range b.Rejected {
			m.count("requests_rejected_total", float64(n), string(reason))
		}
	}
}

// resultOf is how a try without a result counts: one that was only cancelled has not failed.
func resultOf(b telemetry.EpisodeFailed) string {
	switch {
	case b.Code == rollout.CodeCancelled:
		return "cancelled"
	case b.Final:
		return "failed"
	}
	return "retried"
}

// runChanged forgets the levels of a run that is over: a gauge that is not set any more would show its last value
// forever.
func (m *Metrics) runChanged(run rollout.RunName, state runstatus.RunState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !state.Over() {
		delete(m.over, run)
		return
	}
	m.over[run] = true
	if state == runstatus.RunLost {
		m.count("run_lost_total", 1, string(run))
	}
	delete(m.perStep, run)
	m.endLevels(prometheus.Labels{"run": string(run)})
}

// isOver reports whether a run has no levels any more: its last words may come late.
func (m *Metrics) isOver(run rollout.RunName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.over[run]
}

func (m *Metrics) step(name rollout.RunName, r steprecord.StepRecord) {
	run := string(name)
	wall, phases := r.StepSec(), r.StepPhases() // without the prefill
	m.observe("step_duration_seconds", positive(wall), run)
	for phase, sec := range phases {
		m.count("step_phase_seconds_total", sec, run, string(phase))
	}
	for _, g := range r.Service.Groups {
		m.observe("policy_lag_versions", float64(rollout.Staleness(g.MinVersion, r.Service.Version)), run)
	}
	if m.isOver(name) {
		return
	}
	m.set("policy_lag_mean_versions", r.Service.StalenessInFlightMean, run, "in_flight")
	m.set("policy_lag_mean_versions", r.Service.StalenessInBufferMean, run, "in_buffer")
	m.set("buffer_depth_batches", float64(r.Service.Depth), run)
	if reward := r.Service.Reward(); reward.N > 0 {
		m.set("reward_mean", reward.Mean, run)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.perStep[name] = float64(r.Service.GroupsPerStep)
}

func (m *Metrics) level(name rollout.RunName, b telemetry.BufferLevel) {
	run := string(name)
	if b.Cause != "" {
		m.count("trainer_starved_seconds_total", b.StarvedSec, run, string(b.Cause))
		m.count("trainer_prefill_seconds_total", b.PrefillSec, run, string(b.Cause))
	}
	if m.isOver(name) {
		return
	}
	for state, n := range map[string]int64{
		"queued": b.Counts.Queued, "in_flight": b.Counts.InFlight, "ready": b.Counts.Ready, "claimed": b.Counts.Claimed,
	} {
		m.set("buffer_groups", float64(n), run, state)
	}
	// An alert on a first one needs the zero before it.
	m.count("stale_dropped_total", 0, run, string(rollout.CodeStale))
	m.count("run_lost_total", 0, run)
	m.set("buffer_in_flight_groups", float64(b.Counts.InFlight), run)
	m.set("buffer_target_groups", float64(b.Target), run)
	m.set("buffer_bytes", float64(b.Counts.Bytes), run)
	for _, throttle := range runstatus.Throttles() {
		m.set("buffer_throttled", truth(b.Throttle == throttle), run, string(throttle))
	}
	for _, code := range runstatus.AlarmCodes() {
		m.set("alarm", truth(slices.Contains(b.Alarms, code)), run, string(code))
	}
	m.rewardVariance(run, b.RewardVariance)
	m.mu.Lock()
	perStep := m.perStep[name]
	m.mu.Unlock()
	if perStep > 0 {
		m.set("buffer_ready_batches", float64(b.Counts.Ready)/perStep, run)
	}
}

// rewardVariance shows how many of the latest groups teach nothing. A run that has played none says nothing.
func (m *Metrics) rewardVariance(run string, s runstatus.RewardVariance) {
	if s.Groups == 0 {
		return
	}
	m.set("zero_variance_ratio", float64(s.ZeroVariance)/float64(s.Groups), run)
	m.set("reward_variance_collapsed", truth(s.Collapsed), run)
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (m *Metrics) group(run string, g steprecord.GroupView) {
	if g.Times.LaunchedAt.IsZero() || g.Times.StartedAt.IsZero() || g.Times.ReadyAt.IsZero() {
		return
	}
	var found prometheus.Labels
	if m.exemplar != nil {
		found = m.exemplar(rollout.RunName(run), g.Seq)
	}
	observe := func(stage string, sec float64) {
		to := m.histograms["group_duration_seconds"].WithLabelValues(run, stage)
		if with, is := to.(prometheus.ExemplarObserver); is && found != nil {
			with.ObserveWithExemplar(sec, found)
			return
		}
		to.Observe(sec)
	}
	observe("queue", g.Times.StartedAt.Sub(g.Times.LaunchedAt).Seconds())
	observe("play", g.Times.ReadyAt.Sub(g.Times.StartedAt).Seconds())
	observe("model", longest(g.ModelSec))
	observe("env", longest(g.EnvSec))
}

func (m *Metrics) engineChanged(e telemetry.Event, b telemetry.EngineChanged) {
	m.set("engine_up", truth(b.State == enginestate.EngineReady), string(e.Engine))
	m.mu.Lock()
	defer m.mu.Unlock()
	since, joined := m.joining[e.Engine]
	switch b.State {
	case enginestate.EngineStarting, enginestate.EngineLoading:
		if !joined {
			m.joining[e.Engine] = e.At
		}
	case enginestate.EngineReady:
		if joined {
			m.observe("engine_cold_start_seconds", e.At.Sub(since).Seconds(), string(e.Engine))
		}
		delete(m.joining, e.Engine)
	default:
		delete(m.joining, e.Engine)
	}
}

func (m *Metrics) engineLoad(engine string, l enginestate.EngineLoad) {
	m.count("engine_adapter_load_failures_total", 0, engine) // an alert on a first one needs the zero before it
	m.set("engine_in_flight", l.Running, engine)
	m.set("engine_queue", l.Waiting, engine)
	m.set("engine_kv_cache_ratio", l.KVUsage, engine)
	m.set("engine_prefix_hit_ratio", l.PrefixHitShare, engine)
	m.count("engine_tokens_total", l.InputTPS*l.WindowSec, engine, "input")
	m.count("engine_tokens_total", l.OutputTPS*l.WindowSec, engine, "output")
	m.set("engine_dispatch_queue_seconds", l.QueueSec, engine)
	if l.UsageWindowSec > 0 {
		m.set("engine_usage_error_ratio", l.UsageInputError, engine, "input")
		m.set("engine_usage_error_ratio", l.UsageOutputError, engine, "output")
		return
	}
	// Nothing is known, which is not agreement.
	m.gauges["engine_usage_error_ratio"].DeletePartialMatch(prometheus.Labels{"engine": engine})
}

// positive keeps a figure that makes no sense from breaking a counter, which panics when it is made to fall.
func positive(v float64) float64 {
	if v > 0 {
		return v
	}
	return 0
}

func longest(values []float64) float64 {
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	return most
}
