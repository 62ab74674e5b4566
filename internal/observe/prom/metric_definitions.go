package prom

import "github.com/prometheus/client_golang/prometheus"

// prefix leads every name.
const prefix = "millrace_"

// vectors is every metric made of events.
type vectors struct {
	made

	// of the trainer
	stepSec    *prometheus.HistogramVec // run
	phaseSec   *prometheus.CounterVec   // run, phase
	starvedSec *prometheus.CounterVec   // run, reason
	prefillSec *prometheus.CounterVec   // run, reason
	goodput    *prometheus.GaugeVec     // run
	policyLag  *prometheus.HistogramVec // run
	lagMean    *prometheus.GaugeVec     // run, place

	// of the buffer
	readyBatches      *prometheus.GaugeVec   // run
	depthBatches      *prometheus.GaugeVec   // run
	inflightGroups    *prometheus.GaugeVec   // run
	targetGroups      *prometheus.GaugeVec   // run
	groups            *prometheus.GaugeVec   // run, state
	bufferBytes       *prometheus.GaugeVec   // run
	staleDropped      *prometheus.CounterVec // run, reason
	throttled         *prometheus.GaugeVec   // run, reason
	zeroVarianceShare *prometheus.GaugeVec   // run
	collapsed         *prometheus.GaugeVec   // run
	alarms            *prometheus.GaugeVec   // run, code
	lostRuns          *prometheus.CounterVec // run

	// of the games
	groupSec   *prometheus.HistogramVec // run, stage
	episodeSec *prometheus.HistogramVec // run
	episodes   *prometheus.CounterVec   // run, result
	tokens     *prometheus.CounterVec   // run, engine, direction

	// of the engines
	policyVersion    *prometheus.GaugeVec     // run
	engineUp         *prometheus.GaugeVec     // engine
	engineInflight   *prometheus.GaugeVec     // engine
	engineQueue      *prometheus.GaugeVec     // engine
	engineKV         *prometheus.GaugeVec     // engine
	enginePrefixHits *prometheus.GaugeVec     // engine
	engineQueueSec   *prometheus.GaugeVec     // engine
	engineTokens     *prometheus.CounterVec   // engine, direction
	engineUsageError *prometheus.GaugeVec     // engine, direction
	breakers         *prometheus.GaugeVec     // engine, scope
	adapterLoadSec   *prometheus.HistogramVec // engine
	adapterFailures  *prometheus.CounterVec   // engine
	coldStartSec     *prometheus.HistogramVec // engine
	rejected         *prometheus.CounterVec   // reason
	fleetDecisions   *prometheus.CounterVec   // code

	refused *prometheus.CounterVec // reason
	panics  *prometheus.CounterVec // in
	redisUp prometheus.Gauge
}

func newVectors() vectors {
	var m made
	v := vectors{
		stepSec: m.histogram("step_duration_seconds", "Wall time of an optimizer step, from asking for its batch to its "+
			"end, without the prefill.", long, "run"),
		phaseSec: m.counter("step_phase_seconds_total", "Seconds of steps by phase: wait, load, ref_logprobs, train, "+
			"publish, checkpoint, other.", "run", "phase"),
		starvedSec: m.counter("trainer_starved_seconds_total", "Seconds in which the trainer waited for a batch, without "+
			"the prefill, by what the missing groups were doing: gated, queue, engine_cold, adapter_load, inference, env, "+
			"straggler, handover, unknown. They add up to the waits of the step records.", "run", "reason"),
		prefillSec: m.counter("trainer_prefill_seconds_total", "Seconds in which the trainer waited for its first batch, "+
			"while the buffer was filled, by the same reasons.", "run", "reason"),
		goodput: m.gauge("goodput_ratio", "Share of the time of the run's steps that was useful compute, by the ledger of "+
			"millrace diagnose.", "run"),
		policyLag: m.histogram("policy_lag_versions", "Versions that the trainer was ahead of a group's oldest sampler when "+
			"it took the group.", prometheus.LinearBuckets(0, 1, 9), "run"),
		lagMean: m.gauge("policy_lag_mean_versions", "Mean lag of the last batch's groups by where they gathered it: "+
			"in_flight, in_buffer. They add up to the whole.", "run", "place"),

		readyBatches: m.gauge("buffer_ready_batches", "Batches' worth of groups that are complete and not "+
			"claimed.", "run"),
		depthBatches:   m.gauge("buffer_depth_batches", "Batches' worth of groups that may be outstanding.", "run"),
		inflightGroups: m.gauge("buffer_in_flight_groups", "Groups being played.", "run"),
		targetGroups:   m.gauge("buffer_target_groups", "Groups that the run wants outstanding.", "run"),
		groups:         m.gauge("buffer_groups", "Groups by state: queued, in_flight, ready, claimed.", "run", "state"),
		bufferBytes:    m.gauge("buffer_bytes", "Stored trajectories.", "run"),
		staleDropped: m.counter("stale_dropped_total", "Groups that were not trained on, by reason: stale, or any other "+
			"code with which a group is dropped.", "run", "reason"),
		throttled: m.gauge("buffer_throttled", "1 while a bound keeps the run from launching as many groups as its "+
			"depth asks for: max_staleness, max_bytes.", "run", "reason"),
		zeroVarianceShare: m.gauge("zero_variance_ratio", "Share of the latest groups whose rewards were all equal.", "run"),
		collapsed:         m.gauge("reward_variance_collapsed", "1 while most groups say nothing to a trainer.", "run"),
		alarms: m.gauge("alarm", "1 while something keeps a run's games from being played: no_worker, no_engine, "+
			"model_not_served, games_fail.", "run", "code"),
		lostRuns: m.counter("run_lost_total", "How often a run's workflow was found gone.", "run"),

		groupSec: m.histogram("group_duration_seconds", "Time of a group by stage: queue (launch to first request), play "+
			"(to commit), model and env (the slowest episode's).", long, "run", "stage"),
		episodeSec: m.histogram("episode_duration_seconds", "Time of one game.", long, "run"),
		episodes: m.counter("episodes_total", "Attempts at games by result: finished, retried, failed, cancelled (not "+
			"needed any more).", "run", "result"),
		tokens: m.counter("tokens_total", "Tokens of answered requests by run, engine and direction (input, output). Over "+
			"all runs they add up to engine_tokens_total.", "run", "engine", "direction"),

		policyVersion:  m.gauge("policy_version", "Newest policy version that serves.", "run"),
		engineUp:       m.gauge("engine_up", "1 while an engine is ready.", "engine"),
		engineInflight: m.gauge("engine_in_flight", "Requests in the engine's batch.", "engine"),
		engineQueue:    m.gauge("engine_queue", "Requests in the engine's own queue.", "engine"),
		engineKV:       m.gauge("engine_kv_cache_ratio", "Share of the engine's KV cache in use.", "engine"),
		enginePrefixHits: m.gauge("engine_prefix_hit_ratio", "Share of prompt tokens found in the prefix cache, in the last "+
			"window.", "engine"),
		engineTokens: m.counter("engine_tokens_total", "Tokens by direction (input, output), from the engine's own "+
			"counters.", "engine", "direction"),
		engineQueueSec: m.gauge("engine_dispatch_queue_seconds", "Mean wait in dispatch queues of the requests that the "+
			"engine answered in the last window.", "engine"),
		engineUsageError: m.gauge("engine_usage_error_ratio", "Tokens that the engine counted less those that its answers "+
			"account for, as a share of the larger, by direction (input, output).", "engine", "direction"),
		breakers: m.gauge("engine_breaker_open", "Workers that do not dispatch to an engine for now, by whose "+
			"requests: all_runs, one_run. Absent: none.", "engine", "scope"),
		adapterLoadSec:  m.histogram("engine_adapter_load_seconds", "Time to load and verify an adapter.", short, "engine"),
		adapterFailures: m.counter("engine_adapter_load_failures_total", "Loads that failed.", "engine"),
		coldStartSec: m.histogram("engine_cold_start_seconds", "Time from an engine's first sign of life to ready.",
			short, "engine"),
		refused: counter("refused_total", "Requests and connections that this server turned away, by reason: "+
			"unauthorized, forbidden, quota-exceeded, overloaded, unavailable, connections.", "reason"),
		panics: counter("panics_total", "Faults of the program that this server survived, by what they ended: request, "+
			"page, history, diagnosis, verdict, calibration. The log has each with its stack.", "in"),

		redisUp: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "redis_up", Help: "1 while Redis answers this " +
			"server, which looks every 2 s."}),

		fleetDecisions: m.counter("fleet_decisions_total", "Decisions of scaling by why: buys, gives_back, undone, "+
			"restored, queue_up, queue_down, idles, wakes, configured.", "code"),
		rejected: m.counter("requests_rejected_total", "Requests that dispatch gave up, by reason.", "reason"),
	}
	v.made = m
	return v
}

// Buckets: doubling, for what lasts from a tenth of a second to an hour, and from a hundredth of a second to minutes.
var (
	long  = prometheus.ExponentialBuckets(0.1, 2, 16)
	short = prometheus.ExponentialBuckets(0.01, 2, 14)
)

// made gathers the metrics of the deployment as they are defined.
type made struct {
	all          []prometheus.Collector
	runGauges    []*prometheus.GaugeVec // levels that belong to a run and end with it
	engineGauges []*prometheus.GaugeVec // levels that belong to an engine and end with it
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
}

func (m *made) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := counter(name, help, labels...)
	m.all = append(m.all, v)
	return v
}

func (m *made) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
	m.all = append(m.all, v)
	switch labels[0] {
	case "run":
		m.runGauges = append(m.runGauges, v)
	case "engine":
		m.engineGauges = append(m.engineGauges, v)
	}
	return v
}

func (m *made) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, labels)
	m.all = append(m.all, v)
	return v
}
