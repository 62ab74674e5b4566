// Package prom exposes telemetry events as Prometheus metrics. It keeps a registry of its own, takes events as any
// other sink does and knows nothing of where they come from: fed with one process's events it shows that process,
// fed with the store's streams it shows the service.
//
// Labels are bounded: runs, engines and small enums, never a group, an episode or an adapter. Names are a contract with
// dashboards; metric_definitions.go lists them all.
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
	v := &m.vectors
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
		v.staleDropped.WithLabelValues(run, string(b.Code)).Inc()
	case telemetry.EpisodeFinished:
		v.episodes.WithLabelValues(run, "finished").Inc()
		v.episodeSec.WithLabelValues(run).Observe(b.WallSec)
	case telemetry.EpisodeFailed:
		v.episodes.WithLabelValues(run, resultOf(b)).Inc()
	case telemetry.AdapterLoaded:
		if b.Failure != "" {
			v.adapterFailures.WithLabelValues(engine).Inc()
			return
		}
		v.adapterLoadSec.WithLabelValues(engine).Observe(b.Sec)
	case telemetry.AdapterChanged, telemetry.SinkChanged, telemetry.Diagnosed: // kept to be read
	case telemetry.FleetScaled:
		v.fleetDecisions.WithLabelValues(b.Code).Inc()
	case telemetry.FleetMeasured, telemetry.ProviderChanged: // the fleet's standing tells what stands
	case telemetry.PolicyPublished:
		if b.Policy.State == runstatus.PolicyServing {
			v.policyVersion.WithLabelValues(run).Set(float64(b.Policy.Version))
		}
	case telemetry.EngineChanged:
		m.engineChanged(e, b)
	case telemetry.EnginePaced: // the engines' own rates tell the same
	case telemetry.BreakerChanged: // the workers' own lists tell which stand, also when one dies
	case telemetry.EngineSample:
		m.engineLoad(engine, b.Load)
	case telemetry.TokenRates:
		v.tokens.WithLabelValues(run, engine, "input").Add(positive(float64(b.InputTokens)))
		v.tokens.WithLabelValues(run, engine, "output").Add(positive(float64(b.OutputTokens)))
	case telemetry.DispatchSample:
		for reason, n := range b.Rejected {
			v.rejected.WithLabelValues(string(reason)).Add(positive(float64(n)))
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
		m.vectors.lostRuns.WithLabelValues(string(run)).Inc()
	}
	delete(m.perStep, run)
	for _, gauge := range m.vectors.runGauges {
		gauge.DeletePartialMatch(prometheus.Labels{"run": string(run)})
	}
}

// isOver reports whether a run has no levels any more: its last words may come late.
func (m *Metrics) isOver(run rollout.RunName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.over[run]
}

func (m *Metrics) step(name rollout.RunName, r steprecord.StepRecord) {
	run, v := string(name), &m.vectors
	wall, phases := r.StepSec(), r.StepPhases() // without the prefill
	v.stepSec.WithLabelValues(run).Observe(positive(wall))
	for phase, sec := range phases {
		v.phaseSec.WithLabelValues(run, string(phase)).Add(positive(sec))
	}
	for _, g := range r.Service.Groups {
		v.policyLag.WithLabelValues(run).Observe(float64(rollout.Staleness(g.MinVersion, r.Service.Version)))
	}
	if m.isOver(name) {
		return
	}
	v.lagMean.WithLabelValues(run, "in_flight").Set(r.Service.StalenessInFlightMean)
	v.lagMean.WithLabelValues(run, "in_buffer").Set(r.Service.StalenessInBufferMean)
	v.depthBatches.WithLabelValues(run).Set(float64(r.Service.Depth))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.perStep[name] = float64(r.Service.GroupsPerStep)
}

func (m *Metrics) level(name rollout.RunName, b telemetry.BufferLevel) {
	run, v := string(name), &m.vectors
	if b.Cause != "" {
		v.starvedSec.WithLabelValues(run, string(b.Cause)).Add(positive(b.StarvedSec))
		v.prefillSec.WithLabelValues(run, string(b.Cause)).Add(positive(b.PrefillSec))
	}
	if m.isOver(name) {
		return
	}
	for state, n := range map[string]int64{
		"queued": b.Counts.Queued, "in_flight": b.Counts.InFlight, "ready": b.Counts.Ready, "claimed": b.Counts.Claimed,
	} {
		v.groups.WithLabelValues(run, state).Set(float64(n))
	}
	// An alert on a first one needs the zero before it.
	v.staleDropped.WithLabelValues(run, string(rollout.CodeStale))
	v.lostRuns.WithLabelValues(run)
	v.inflightGroups.WithLabelValues(run).Set(float64(b.Counts.InFlight))
	v.targetGroups.WithLabelValues(run).Set(float64(b.Target))
	v.bufferBytes.WithLabelValues(run).Set(float64(b.Counts.Bytes))
	for _, throttle := range runstatus.Throttles() {
		v.throttled.WithLabelValues(run, string(throttle)).Set(truth(b.Throttle == throttle))
	}
	for _, code := range runstatus.AlarmCodes() {
		v.alarms.WithLabelValues(run, string(code)).Set(truth(slices.Contains(b.Alarms, code)))
	}
	m.rewardVariance(run, b.RewardVariance)
	m.mu.Lock()
	perStep := m.perStep[name]
	m.mu.Unlock()
	if perStep > 0 {
		v.readyBatches.WithLabelValues(run).Set(float64(b.Counts.Ready) / perStep)
	}
}

// rewardVariance shows how many of the latest groups teach nothing. A run that has played none says nothing.
func (m *Metrics) rewardVariance(run string, s runstatus.RewardVariance) {
	if s.Groups == 0 {
		return
	}
	m.vectors.zeroVarianceShare.WithLabelValues(run).Set(float64(s.ZeroVariance) / float64(s.Groups))
	m.vectors.collapsed.WithLabelValues(run).Set(truth(s.Collapsed))
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (m *Metrics) group(run string, g steprecord.GroupView) {
	v := &m.vectors
	if g.Times.LaunchedAt.IsZero() || g.Times.StartedAt.IsZero() || g.Times.ReadyAt.IsZero() {
		return
	}
	var found prometheus.Labels
	if m.exemplar != nil {
		found = m.exemplar(rollout.RunName(run), g.Seq)
	}
	observe := func(stage string, sec float64) {
		to := v.groupSec.WithLabelValues(run, stage)
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
	m.vectors.engineUp.WithLabelValues(string(e.Engine)).Set(truth(b.State == enginestate.EngineReady))
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
			m.vectors.coldStartSec.WithLabelValues(string(e.Engine)).Observe(e.At.Sub(since).Seconds())
		}
		delete(m.joining, e.Engine)
	default:
		delete(m.joining, e.Engine)
	}
}

func (m *Metrics) engineLoad(engine string, l enginestate.EngineLoad) {
	v := &m.vectors
	v.adapterFailures.WithLabelValues(engine) // an alert on a first one needs the zero before it
	v.engineInflight.WithLabelValues(engine).Set(l.Running)
	v.engineQueue.WithLabelValues(engine).Set(l.Waiting)
	v.engineKV.WithLabelValues(engine).Set(l.KVUsage)
	v.enginePrefixHits.WithLabelValues(engine).Set(l.PrefixHitShare)
	v.engineTokens.WithLabelValues(engine, "input").Add(positive(l.InputTPS * l.WindowSec))
	v.engineTokens.WithLabelValues(engine, "output").Add(positive(l.OutputTPS * l.WindowSec))
	v.engineQueueSec.WithLabelValues(engine).Set(l.QueueSec)
	if l.UsageWindowSec > 0 {
		v.engineUsageError.WithLabelValues(engine, "input").Set(l.UsageInputError)
		v.engineUsageError.WithLabelValues(engine, "output").Set(l.UsageOutputError)
		return
	}
	v.engineUsageError.DeletePartialMatch(prometheus.Labels{"engine": engine}) // nothing is known, which is not agreement
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
