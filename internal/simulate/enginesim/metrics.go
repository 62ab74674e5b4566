package enginesim

import (
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
)

// metrics are what a vLLM engine counts about requests, as far as somebody reads it: the service, and who compares
// engines. The loop owns them; scrapes read them through it. Token counters come from the batch scheduler.
type metrics struct {
	cfg       Config
	success   map[string]float64     // by finished_reason
	loraSeen  map[loraLabels]float64 // unix time, by combination ever seen
	latencies map[float64]uint64     // how many requests took so long at most, by vLLM's bounds
	latency   float64                // sum, in seconds
	requests  uint64                 // that latencies are of
	wallClock func() time.Time       // for lora_requests_info
}

type loraLabels struct{ running, waiting string }

// latencyBounds are vLLM's.
var latencyBounds = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920,
	7680}

func newMetrics(cfg Config) *metrics {
	return &metrics{
		cfg:       cfg,
		success:   map[string]float64{"stop": 0, "length": 0, "abort": 0, "error": 0, "repetition": 0},
		loraSeen:  map[loraLabels]float64{},
		latencies: map[float64]uint64{},
		wallClock: time.Now,
	}
}

// finished counts a request that ended or was aborted. Latencies are in the model's time divided by speed, as a client
// sees them.
func (m *metrics) finished(g *generation) {
	m.success[g.finishReason()]++
	if !g.ran {
		return
	}
	sec := (g.finished - g.submitted).Seconds() / m.cfg.Speed
	m.latency += sec
	m.requests++
	for _, bound := range latencyBounds[sort.SearchFloat64s(latencyBounds, sec):] {
		m.latencies[bound]++
	}
}

// snapshot renders everything as of now. Combinations of adapters are series that stay.
func (m *metrics) snapshot(held batch.Held, totals batch.Totals) []prometheus.Metric {
	s := &series{names: []string{"model_name", "engine"}, values: []string{m.cfg.Model, "0"}}
	s.gauge("num_requests_running", "Number of requests in model execution batches.", float64(held.Running))
	s.gauge("num_requests_waiting", "Number of requests waiting to be processed.", float64(held.Waiting))
	s.gauge("num_requests_waiting_by_reason", "Number of waiting requests by reason.", float64(held.Waiting-held.Deferred),
		"reason", "capacity")
	s.gauge("num_requests_waiting_by_reason", "Number of waiting requests by reason.", float64(held.Deferred),
		"reason", "deferred")
	s.gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", float64(held.KV)/float64(m.cfg.KVTokens))
	m.counters(s, totals)
	m.loraInfo(s, held)
	desc := prometheus.NewDesc("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.",
		s.names, nil)
	buckets := make(map[float64]uint64, len(latencyBounds))
	for _, bound := range latencyBounds {
		buckets[bound] = m.latencies[bound]
	}
	return append(s.metrics, prometheus.MustNewConstHistogram(desc, m.requests, m.latency, buckets, s.values...))
}

func (m *metrics) counters(s *series, t batch.Totals) {
	s.counter("prompt_tokens", "Number of prefill tokens processed.", float64(t.PromptTokens))
	s.counter("generation_tokens", "Number of generation tokens processed.", float64(t.GenerationTokens))
	s.counter("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.",
		float64(t.PrefixQueries))
	s.counter("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", float64(t.PrefixHits))
	s.counter("num_preemptions", "Cumulative number of preemption from the engine.", 0)
	for reason, n := range m.success {
		s.counter("request_success", "Count of successfully processed requests.", n, "finished_reason", reason)
	}
}

// loraInfo stamps the present combination of adapters with the time; older ones keep theirs.
func (m *metrics) loraInfo(s *series, held batch.Held) {
	now := loraLabels{strings.Join(held.RunningAdapters, ","), strings.Join(held.WaitingAdapters, ",")}
	if held.Running+held.Waiting > 0 || len(m.loraSeen) > 0 {
		m.loraSeen[now] = float64(m.wallClock().UnixNano()) / 1e9
	}
	for labels, at := range m.loraSeen {
		s.bare("lora_requests_info", "Running stats on lora requests.", at, "max_lora", strconv.Itoa(m.cfg.MaxLoRAs),
			"waiting_lora_adapters", labels.waiting, "running_lora_adapters", labels.running)
	}
}

// series collects metrics that share labels.
type series struct {
	names, values []string
	metrics       []prometheus.Metric
}

func (s *series) gauge(name, help string, v float64, labels ...string) {
	s.add(prometheus.GaugeValue, name, help, v, s.names, s.values, labels)
}

func (s *series) counter(name, help string, v float64, labels ...string) {
	s.add(prometheus.CounterValue, name+"_total", help, v, s.names, s.values, labels)
}

// bare is a gauge without the shared labels.
func (s *series) bare(name, help string, v float64, labels ...string) {
	s.add(prometheus.GaugeValue, name, help, v, nil, nil, labels)
}

func (s *series) add(kind prometheus.ValueType, name, help string, v float64, names, values, labels []string) {
	names, values = append([]string(nil), names...), append([]string(nil), values...)
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	desc := prometheus.NewDesc("vllm:"+name, help, names, nil)
	s.metrics = append(s.metrics, prometheus.MustNewConstMetric(desc, kind, v, values...))
}

// collector hands a snapshot to a registry made for one scrape.
type collector []prometheus.Metric

// Describe announces nothing: what there is varies with the adapters seen.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the snapshot.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, m := range c {
		out <- m
	}
}
