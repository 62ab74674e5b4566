package prom

import (
	_ "embed"
	"encoding/json"

	"github.com/prometheus/client_golang/prometheus"
)

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
		stepSec:    m.histogram("step_duration_seconds", long),
		phaseSec:   m.counter("step_phase_seconds_total"),
		starvedSec: m.counter("trainer_starved_seconds_total"),
		prefillSec: m.counter("trainer_prefill_seconds_total"),
		goodput:    m.gauge("goodput_ratio"),
		policyLag:  m.histogram("policy_lag_versions", prometheus.LinearBuckets(0, 1, 9)),
		lagMean:    m.gauge("policy_lag_mean_versions"),

		readyBatches:      m.gauge("buffer_ready_batches"),
		depthBatches:      m.gauge("buffer_depth_batches"),
		inflightGroups:    m.gauge("buffer_in_flight_groups"),
		targetGroups:      m.gauge("buffer_target_groups"),
		groups:            m.gauge("buffer_groups"),
		bufferBytes:       m.gauge("buffer_bytes"),
		staleDropped:      m.counter("stale_dropped_total"),
		throttled:         m.gauge("buffer_throttled"),
		zeroVarianceShare: m.gauge("zero_variance_ratio"),
		collapsed:         m.gauge("reward_variance_collapsed"),
		alarms:            m.gauge("alarm"),
		lostRuns:          m.counter("run_lost_total"),

		groupSec:   m.histogram("group_duration_seconds", long),
		episodeSec: m.histogram("episode_duration_seconds", long),
		episodes:   m.counter("episodes_total"),
		tokens:     m.counter("tokens_total"),

		policyVersion:    m.gauge("policy_version"),
		engineUp:         m.gauge("engine_up"),
		engineInflight:   m.gauge("engine_in_flight"),
		engineQueue:      m.gauge("engine_queue"),
		engineKV:         m.gauge("engine_kv_cache_ratio"),
		enginePrefixHits: m.gauge("engine_prefix_hit_ratio"),
		engineTokens:     m.counter("engine_tokens_total"),
		engineQueueSec:   m.gauge("engine_dispatch_queue_seconds"),
		engineUsageError: m.gauge("engine_usage_error_ratio"),
		breakers:         m.gauge("engine_breaker_open"),
		adapterLoadSec:   m.histogram("engine_adapter_load_seconds", short),
		adapterFailures:  m.counter("engine_adapter_load_failures_total"),
		coldStartSec:     m.histogram("engine_cold_start_seconds", short),
		refused:          counter("refused_total"),
		panics:           counter("panics_total"),

		redisUp: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "redis_up", Help: definitions["redis_up"].Help}),

		fleetDecisions: m.counter("fleet_decisions_total"),
		rejected:       m.counter("requests_rejected_total"),
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

// definition is what metrics.json says of a metric.
type definition struct {
	Help   string
	Labels []string
}

//go:embed metrics.json
var metricsFile []byte

// definitions is every metric of servers that is made of events or of what stands in Redis, by its name.
var definitions = func() (all map[string]definition) {
	if err := json.Unmarshal(metricsFile, &all); err != nil {
		panic(err) // it is a part of the program
	}
	return all
}()

// definedDesc is a metric of what stands in Redis.
func definedDesc(name string) *prometheus.Desc {
	return desc(prefix+name, definitions[name].Help, definitions[name].Labels...)
}

func counter(name string) *prometheus.CounterVec {
	of := definitions[name]
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: of.Help}, of.Labels)
}

func (m *made) counter(name string) *prometheus.CounterVec {
	v := counter(name)
	m.all = append(m.all, v)
	return v
}

func (m *made) gauge(name string) *prometheus.GaugeVec {
	of := definitions[name]
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: of.Help}, of.Labels)
	m.all = append(m.all, v)
	switch of.Labels[0] {
	case "run":
		m.runGauges = append(m.runGauges, v)
	case "engine":
		m.engineGauges = append(m.engineGauges, v)
	}
	return v
}

func (m *made) histogram(name string, buckets []float64) *prometheus.HistogramVec {
	of := definitions[name]
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: of.Help, Buckets: buckets},
		of.Labels)
	m.all = append(m.all, v)
	return v
}
