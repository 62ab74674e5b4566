package vllm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/millrace/millrace/internal/rollout"
)

// Sample is an engine's load and counters, summed over the engine cores behind one port. Counters
// start at zero when the engine starts: a decrease is a restart.
type Sample struct {
	Running  float64 // requests in the batch
	Waiting  float64 // requests in the engine's own queue
	Deferred float64 // of those, waiting for an adapter slot or for their constraint to be compiled
	KVUsage  float64 // 0..1, of the fullest core
	MaxLoRAs int     // adapters in one batch; 0: not told, as before the first request

	PromptTokens     float64 // counters, in tokens; a prompt counts whole at its first token
	GenerationTokens float64
	PrefixQueries    float64 // prompt tokens looked up in the prefix cache
	PrefixHits       float64 // and found
	Preemptions      float64
	Finished         map[string]float64 // requests by finish reason: stop, length, abort, error
}

// Metrics reads /metrics. Names of older engines are understood.
func (c *Client) Metrics(ctx context.Context) (Sample, error) {
	body, err := c.get(ctx, "/metrics")
	if err != nil {
		return Sample{}, err
	}
	s, err := parseMetrics(body)
	if err != nil {
		return Sample{}, rollout.Fail(rollout.Retryable, BadAnswer, fmt.Errorf("GET /metrics: %w", err))
	}
	return s, nil
}

// aliases maps names of older engines to today's.
var aliases = map[string]string{
	"gpu_cache_usage_perc":           "kv_cache_usage_perc",
	"gpu_prefix_cache_queries_total": "prefix_cache_queries_total",
	"gpu_prefix_cache_hits_total":    "prefix_cache_hits_total",
	"gpu_prefix_cache_queries":       "prefix_cache_queries_total",
	"gpu_prefix_cache_hits":          "prefix_cache_hits_total",
}

func parseMetrics(text []byte) (Sample, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := guarded(text, parser.TextToMetricFamilies)
	if err != nil {
		return Sample{}, err
	}
	s := Sample{Finished: map[string]float64{}}
	known := false
	for name, family := range families {
		if !strings.HasPrefix(name, "vllm:") {
			continue
		}
		samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, family)
		if err != nil {
			return Sample{}, fmt.Errorf("%s: %w", name, err)
		}
		for _, sample := range samples {
			known = s.add(sample) || known
		}
	}
	if !known {
		return Sample{}, fmt.Errorf("no metrics of vLLM; was the engine started with --disable-log-stats?")
	}
	if !s.finite() {
		return Sample{}, fmt.Errorf("the sum of a metric over the engine cores is beyond every number")
	}
	return s, nil
}

// guarded parses a page of metrics. The parser panics on some pages that are none, such as a comment and then "{}", and what
// an engine sends must not end the process that asked for it.
func guarded[T any](page []byte, parse func(io.Reader) (T, error)) (parsed T, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("not in the text format of metrics: %v", fault)
		}
	}()
	return parse(bytes.NewReader(page))
}

// finite tells whether every sum is a number; each part of it was one.
func (s *Sample) finite() bool {
	sums := []float64{s.Running, s.Waiting, s.Deferred, s.PromptTokens, s.GenerationTokens, s.PrefixQueries, s.PrefixHits, s.Preemptions}
	sums = slices.AppendSeq(sums, maps.Values(s.Finished))
	return !slices.ContainsFunc(sums, func(v float64) bool { return math.IsInf(v, 0) })
}

// add takes one series in and tells whether it is one that Sample speaks of.
func (s *Sample) add(series *model.Sample) bool {
	v := float64(series.Value)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return false
	}
	name := strings.TrimPrefix(string(series.Metric[model.MetricNameLabel]), "vllm:")
	if current, old := aliases[name]; old {
		name = current
	}
	switch name {
	case "num_requests_running":
		s.Running += v
	case "num_requests_waiting":
		s.Waiting += v
	case "num_requests_waiting_by_reason":
		if series.Metric["reason"] == "deferred" {
			s.Deferred += v
		}
	case "lora_requests_info":
		if n, err := strconv.Atoi(string(series.Metric["max_lora"])); err == nil {
			s.MaxLoRAs = max(s.MaxLoRAs, n)
		}
	case "kv_cache_usage_perc":
		s.KVUsage = max(s.KVUsage, v)
	case "prompt_tokens_total":
		s.PromptTokens += v
	case "generation_tokens_total":
		s.GenerationTokens += v
	case "prefix_cache_queries_total":
		s.PrefixQueries += v
	case "prefix_cache_hits_total":
		s.PrefixHits += v
	case "num_preemptions_total":
		s.Preemptions += v
	case "request_success_total":
		s.Finished[string(series.Metric["finished_reason"])] += v
	default:
		return false
	}
	return true
}
