package enginesim

import (
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/enginesim/batch"
)

// metrics are what a vLLM engine counts about requests. The loop owns them; scrapes read them
// through it. Token counters come from the batch scheduler.
type metrics struct {
	cfg       Config
	success   map[string]float64     // by finished_reason
	loraSeen  map[loraLabels]float64 // unix time, by combination ever seen
	histogram map[string]*histogram  // by name, without the prefix
	wallClock func() time.Time       // for lora_requests_info
}

type loraLabels struct{ running, waiting string }

// histogram is a cumulative histogram that takes many equal observations at once.
type histogram struct {
	help   string
	bounds []float64
	counts []uint64
	sum    float64
	total  uint64
}

func (h *histogram) observe(v float64, n int) {
	if n <= 0 {
		return
	}
	if i := sort.SearchFloat64s(h.bounds, v); i < len(h.counts) {
		h.counts[i] += uint64(n)
	}
	h.sum += v * float64(n)
	h.total += uint64(n)
}

// vLLM's bucket bounds.
var (
	ttftBounds = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20,
		40, 80, 160, 640, 2560}
	tokenTimeBounds = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5,
		7.5, 10, 20, 40, 80}
	latencyBounds = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240,
		480, 960, 1920, 7680}
	iterationBounds = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	choiceBounds    = []float64{1, 2, 5, 10, 20}
)

// countBounds are 1, 2, 5, 10, ... up to most.
func countBounds(most int) []float64 {
	var bounds []float64
	for scale := 1; ; scale *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*scale > most {
				return bounds
			}
			bounds = append(bounds, float64(m*scale))
		}
	}
}

func newMetrics(cfg Config) *metrics {
	m := &metrics{
		cfg:       cfg,
		success:   map[string]float64{"stop": 0, "length": 0, "abort": 0, "error": 0, "repetition": 0},
		loraSeen:  map[loraLabels]float64{},
		histogram: map[string]*histogram{},
		wallClock: time.Now,
	}
	counts := countBounds(cfg.MaxModelLen)
	for name, h := range map[string]histogram{
		"time_to_first_token_seconds": {help: "Histogram of time to first token in seconds.", bounds: ttftBounds},
		"inter_token_latency_seconds": {help: "Histogram of inter-token latency in seconds.",
			bounds: tokenTimeBounds},
		"request_time_per_output_token_seconds": {help: "Histogram of time_per_output_token_seconds per request.",
			bounds: tokenTimeBounds},
		"e2e_request_latency_seconds": {help: "Histogram of e2e request latency in seconds.",
			bounds: latencyBounds},
		"request_queue_time_seconds": {help: "Histogram of time spent in WAITING phase for request.",
			bounds: latencyBounds},
		"request_inference_time_seconds": {help: "Histogram of time spent in RUNNING phase for request.",
			bounds: latencyBounds},
		"request_prefill_time_seconds": {help: "Histogram of time spent in PREFILL phase for request.",
			bounds: latencyBounds},
		"request_decode_time_seconds": {help: "Histogram of time spent in DECODE phase for request.",
			bounds: latencyBounds},
		"request_prompt_tokens":     {help: "Number of prefill tokens processed.", bounds: counts},
		"request_generation_tokens": {help: "Number of generation tokens processed.", bounds: counts},
		"request_max_num_generation_tokens": {help: "Histogram of maximum number of requested generation " +
			"tokens.", bounds: counts},
		"request_params_n":          {help: "Histogram of the n request parameter.", bounds: choiceBounds},
		"request_params_max_tokens": {help: "Histogram of the max_tokens request parameter.", bounds: counts},
		"request_prefill_kv_computed_tokens": {help: "Histogram of new KV tokens computed during prefill (excluding " +
			"cached tokens).", bounds: counts},
		"iteration_tokens_total": {help: "Histogram of number of tokens per engine_step.",
			bounds: iterationBounds},
	} {
		h.counts = make([]uint64, len(h.bounds))
		m.histogram[name] = &h
	}
	return m
}

func (m *metrics) observe(name string, v float64, n int) { m.histogram[name].observe(v, n) }

// stepped counts steps. Latencies are in the model's time divided by speed, as a client sees them.
func (m *metrics) stepped(s batch.Stepped) {
	m.observe("iteration_tokens_total", float64(s.Tokens), s.Steps)
	m.observe("inter_token_latency_seconds", m.seconds(s.Took)/float64(s.Steps), s.Steps*s.Decoding)
}

// seconds converts model time to the time that passes outside.
func (m *metrics) seconds(d time.Duration) float64 { return d.Seconds() / m.cfg.Speed }

func (m *metrics) firstToken(g *generation) {
	m.observe("time_to_first_token_seconds", m.seconds(g.first-g.submitted), 1)
}

// finished counts a request that ended or was aborted.
func (m *metrics) finished(g *generation) {
	m.success[g.finishReason()]++
	if !g.ran {
		return
	}
	m.observe("e2e_request_latency_seconds", m.seconds(g.finished-g.submitted), 1)
	m.observe("request_queue_time_seconds", m.seconds(g.admitted-g.submitted), 1)
	m.observe("request_inference_time_seconds", m.seconds(g.finished-g.admitted), 1)
	m.observe("request_prompt_tokens", float64(len(g.prompt)), 1)
	m.observe("request_generation_tokens", float64(g.tokens), 1)
	m.observe("request_max_num_generation_tokens", float64(g.tokens), 1)
	m.observe("request_params_n", float64(g.params.n), 1)
	m.observe("request_params_max_tokens", float64(g.params.maxTokens), 1)
	m.observe("request_prefill_kv_computed_tokens", float64(len(g.prompt)-g.cached), 1)
	if g.tokens == 0 {
		return
	}
	m.observe("request_prefill_time_seconds", m.seconds(g.first-g.admitted), 1)
	m.observe("request_decode_time_seconds", m.seconds(g.finished-g.first), 1)
	if g.tokens > 1 {
		m.observe("request_time_per_output_token_seconds", m.seconds(g.finished-g.first)/float64(g.tokens-1), 1)
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
	for _, state := range []string{"awake", "weights_offloaded", "discard_all"} {
		awake := 0.0
		if state == "awake" {
			awake = 1
		}
		s.gauge("engine_sleep_state", "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is "+
			"awake.", awake, "sleep_state", state)
	}
	m.counters(s, totals)
	m.loraInfo(s, held)
	s.gauge("cache_config_info", "Information of the LLMEngine CacheConfig", 1,
		"block_size", strconv.Itoa(m.cfg.BlockSize), "enable_prefix_caching", pythonBool(m.cfg.PrefixCaching),
		"num_gpu_blocks", strconv.Itoa(m.cfg.KVTokens/m.cfg.BlockSize))
	for name, h := range m.histogram {
		s.histogram(name, h)
	}
	return s.metrics
}

func (m *metrics) counters(s *series, t batch.Totals) {
	s.counter("prompt_tokens", "Number of prefill tokens processed.", float64(t.PromptTokens))
	const source = "Number of prompt tokens by source."
	s.counter("prompt_tokens_by_source", source, float64(t.PromptTokens-t.CachedTokens), "source", "local_compute")
	s.counter("prompt_tokens_by_source", source, float64(t.CachedTokens), "source", "local_cache_hit")
	s.counter("prompt_tokens_by_source", source, 0, "source", "external_kv_transfer")
	s.counter("prompt_tokens_cached", "Number of cached prompt tokens (local + external).", float64(t.CachedTokens))
	s.counter("generation_tokens", "Number of generation tokens processed.", float64(t.GenerationTokens))
	s.counter("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.",
		float64(t.PrefixQueries))
	s.counter("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", float64(t.PrefixHits))
	s.counter("external_prefix_cache_queries", "External prefix cache queries from KV connector cross-instance cache "+
		"sharing, in terms of number of queried tokens.", 0)
	s.counter("external_prefix_cache_hits", "External prefix cache hits from KV connector cross-instance cache sharing, "+
		"in terms of number of cached tokens.", 0)
	s.counter("mm_cache_queries", "Multi-modal cache queries, in terms of number of queried items.", 0)
	s.counter("mm_cache_hits", "Multi-modal cache hits, in terms of number of cached items.", 0)
	s.counter("num_preemptions", "Cumulative number of preemption from the engine.", 0)
	s.counter("corrupted_requests", "Corrupted requests, in terms of total number of requests with NaNs in logits.", 0)
	for reason, n := range m.success {
		s.counter("request_success", "Count of successfully processed requests.", n, "finished_reason", reason)
	}
}

// loraInfo stamps the present combination of adapters with the time; older ones keep theirs.
func (m *metrics) loraInfo(s *series, held batch.Held) {
	if !m.cfg.EnableLoRA {
		return
	}
	now := loraLabels{strings.Join(held.RunningAdapters, ","), strings.Join(held.WaitingAdapters, ",")}
	if held.Running+held.Waiting > 0 || len(m.loraSeen) > 0 {
		m.loraSeen[now] = float64(m.wallClock().UnixNano()) / 1e9
	}
	for labels, at := range m.loraSeen {
		s.bare("lora_requests_info", "Running stats on lora requests.", at, "max_lora", strconv.Itoa(m.cfg.MaxLoRAs),
			"waiting_lora_adapters", labels.waiting, "running_lora_adapters", labels.running)
	}
}

func pythonBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
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

func (s *series) histogram(name string, h *histogram) {
	cumulative, total := make(map[float64]uint64, len(h.bounds)), uint64(0)
	for i, bound := range h.bounds {
		total += h.counts[i]
		cumulative[bound] = total
	}
	desc := prometheus.NewDesc("vllm:"+name, h.help, s.names, nil)
	s.metrics = append(s.metrics, prometheus.MustNewConstHistogram(desc, h.total, h.sum, cumulative, s.values...))
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
