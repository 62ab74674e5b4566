package enginesim

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
)

// metrics are what a vLLM engine counts about requests, as far as somebody reads it: the service, and who compares
// engines. The loop owns them; scrapes read them through it. What the batch scheduler counts is read from it.
type metrics struct {
	registry *prometheus.Registry
	sched    *batch.Scheduler
	speed    float64
	success  *prometheus.CounterVec // by finished_reason
	latency  prometheus.Histogram
	adapters *prometheus.GaugeVec // when each combination was seen last
	seen     bool                 // any
}

// latencyBounds are vLLM's, in seconds.
var latencyBounds = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920,
	7680}

// figure is a metric that the scheduler has the value of.
type figure struct {
	name, help string
	reason     string // why requests wait; empty: the metric has no such label
	of         func(*batch.Scheduler) int
}

var gauges = []figure{
	{"num_requests_running", "Number of requests in model execution batches.", "",
		func(s *batch.Scheduler) int { return s.Held().Running }},
	{"num_requests_waiting", "Number of requests waiting to be processed.", "",
		func(s *batch.Scheduler) int { return s.Held().Waiting }},
	{"num_requests_waiting_by_reason", "Number of waiting requests by reason.", "capacity",
		func(s *batch.Scheduler) int { return s.Held().Waiting - s.Held().Deferred }},
	{"num_requests_waiting_by_reason", "Number of waiting requests by reason.", "deferred",
		func(s *batch.Scheduler) int { return s.Held().Deferred }},
}

var counters = []figure{
	{"prompt_tokens_total", "Number of prefill tokens processed.", "",
		func(s *batch.Scheduler) int { return int(s.Totals().PromptTokens) }},
	{"generation_tokens_total", "Number of generation tokens processed.", "",
		func(s *batch.Scheduler) int { return int(s.Totals().GenerationTokens) }},
	{"prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.", "",
		func(s *batch.Scheduler) int { return int(s.Totals().PrefixQueries) }},
	{"prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", "",
		func(s *batch.Scheduler) int { return int(s.Totals().PrefixHits) }},
	{"num_preemptions_total", "Cumulative number of preemption from the engine.", "",
		func(*batch.Scheduler) int { return 0 }},
}

func newMetrics(cfg Config, sched *batch.Scheduler) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(), sched: sched, speed: cfg.Speed,
		success: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "request_success_total",
			Help: "Count of successfully processed requests."}, []string{"finished_reason"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "e2e_request_latency_seconds",
			Help: "Histogram of e2e request latency in seconds.", Buckets: latencyBounds}),
		adapters: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lora_requests_info",
			Help: "Running stats on lora requests.", ConstLabels: prometheus.Labels{"max_lora": strconv.Itoa(cfg.MaxLoRAs)}},
			[]string{"waiting_lora_adapters", "running_lora_adapters"}),
	}
	for _, reason := range []string{"stop", "length", "abort", "error", "repetition"} {
		m.success.WithLabelValues(reason)
	}
	vllm := prometheus.WrapRegistererWithPrefix("vllm:", m.registry)
	vllm.MustRegister(m.adapters)
	own := prometheus.WrapRegistererWith(prometheus.Labels{"model_name": cfg.Model, "engine": "0"}, vllm)
	own.MustRegister(m.success, m.latency, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "kv_cache_usage_perc",
		Help: "KV-cache usage. 1 means 100 percent usage."},
		func() float64 { return float64(sched.Held().KV) / float64(cfg.KVTokens) }))
	for _, g := range gauges {
		opts := prometheus.GaugeOpts{Name: g.name, Help: g.help}
		if g.reason != "" {
			opts.ConstLabels = prometheus.Labels{"reason": g.reason}
		}
		own.MustRegister(prometheus.NewGaugeFunc(opts, func() float64 { return float64(g.of(sched)) }))
	}
	for _, c := range counters {
		own.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: c.name, Help: c.help},
			func() float64 { return float64(c.of(sched)) }))
	}
	return m
}

// finished counts a request that ended or was aborted. Latencies are in the model's time divided by speed, as a client
// sees them.
func (m *metrics) finished(g *generation) {
	m.success.WithLabelValues(g.finishReason()).Inc()
	if g.ran {
		m.latency.Observe((g.finished - g.submitted).Seconds() / m.speed)
	}
}

// write writes everything as of now, and stamps the present combination of adapters with the time; older ones keep
// theirs.
func (m *metrics) write(w http.ResponseWriter, r *http.Request) {
	held := m.sched.Held()
	if m.seen = m.seen || held.Running+held.Waiting > 0; m.seen {
		m.adapters.WithLabelValues(strings.Join(held.WaitingAdapters, ","), strings.Join(held.RunningAdapters, ",")).
			Set(float64(time.Now().UnixNano()) / 1e9)
	}
	promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// scrape answers from one moment of the loop, which does not wait for the client.
func (e *Engine) scrape(w http.ResponseWriter, r *http.Request) {
	held := &heldResponse{header: w.Header(), status: http.StatusOK}
	if err := e.loop.do(r.Context(), func() { e.loop.metrics.write(held, r) }); err != nil {
		fail(w, err)
		return
	}
	w.WriteHeader(held.status)
	_, _ = w.Write(held.body.Bytes()) // a client that left is noticed by its context
}
