package vllm

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"

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
	RequestSec       float64            // time of the requests that have ended, summed, in the engine
	Requests         float64            // that have ended
	Finished         map[string]float64 // requests by finish reason: stop, length, abort, error
}

// Metrics reads /metrics, as far as Sample speaks of it. Names of older engines are understood.
func (c *Client) Metrics(ctx context.Context) (Sample, error) {
	var s Sample
	err := c.read(ctx, "/metrics", func(req *http.Request) error {
		resp, err := c.send(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		s, err = parseMetrics(resp.Body)
		return err
	})
	return s, err
}

// Bounds of a page of metrics. It grows with every adapter that an engine has served. Sample's families have one series
// per engine core. No engine counts as far as mostCounted, nor has mostRequests at once.
const (
	maxMetricsBytes = 16 << 20
	maxMetricsLine  = 16 << 10 // longer lines are skipped
	maxSeries       = 8192
	maxReasons      = 32
	mostCounted     = 1e15
	mostRequests    = 1e6
)

// aliases maps names of older engines to today's.
var aliases = map[string]string{
	"gpu_cache_usage_perc":           "kv_cache_usage_perc",
	"gpu_prefix_cache_queries_total": "prefix_cache_queries_total",
	"gpu_prefix_cache_hits_total":    "prefix_cache_hits_total",
	"gpu_prefix_cache_queries":       "prefix_cache_queries_total",
	"gpu_prefix_cache_hits":          "prefix_cache_hits_total",
}

// parseMetrics reads a page line by line and holds none of it.
func parseMetrics(page io.Reader) (Sample, error) {
	limited := &io.LimitedReader{R: page, N: maxMetricsBytes + 1}
	lines := bufio.NewReaderSize(limited, maxMetricsLine)
	s := Sample{Finished: map[string]float64{}}
	for known := 0; ; {
		line, err := lines.ReadSlice('\n')
		whole := err != bufio.ErrBufferFull
		for err == bufio.ErrBufferFull {
			_, err = lines.ReadSlice('\n')
		}
		if one, ours := readSeries(line); whole && ours && s.add(one) {
			known++
		}
		switch {
		case limited.N == 0:
			return Sample{}, badMetrics("more than %d bytes", maxMetricsBytes)
		case known > maxSeries:
			return Sample{}, badMetrics("more than %d series of a kind that each engine core has one of", maxSeries)
		case err == io.EOF && known == 0:
			return Sample{}, badMetrics("no metrics of vLLM; was the engine started with --disable-log-stats?")
		case err == io.EOF && !s.plausible():
			return Sample{}, badMetrics("figures that no engine has")
		case err == io.EOF:
			return s, nil
		case err != nil:
			return Sample{}, err
		}
	}
}

func badMetrics(format string, args ...any) error {
	return rollout.Fail(rollout.Retryable, rollout.CodeBadAnswer, fmt.Errorf("GET /metrics: "+format, args...))
}

// plausible reports whether every sum is one that an engine may have.
func (s *Sample) plausible() bool {
	for _, v := range []float64{s.PromptTokens, s.GenerationTokens, s.PrefixQueries, s.PrefixHits, s.Preemptions,
		s.RequestSec, s.Requests} {
		if v > mostCounted {
			return false
		}
	}
	for _, v := range s.Finished {
		if v > mostCounted {
			return false
		}
	}
	return max(s.Running, s.Waiting, s.Deferred) <= mostRequests
}

// series is one line of a page: vllm:NAME{LABELS} VALUE.
type series struct {
	name   string
	labels []byte // as they were written
	value  float64
}

// readSeries reads a line, if it is of a metric of vLLM's that has a value.
func readSeries(line []byte) (s series, ours bool) {
	rest, ours := bytes.CutPrefix(line, []byte("vllm:"))
	end := bytes.IndexAny(rest, "{ \t")
	if !ours || end < 0 {
		return series{}, false
	}
	s.name = string(rest[:end])
	if current, old := aliases[s.name]; old {
		s.name = current
	}
	if rest = rest[end:]; rest[0] == '{' {
		close := closing(rest)
		if close < 0 {
			return series{}, false
		}
		s.labels, rest = rest[1:close], rest[close+1:]
	}
	words := bytes.Fields(rest) // the value, and perhaps a time
	if len(words) == 0 {
		return series{}, false
	}
	v, err := strconv.ParseFloat(string(words[0]), 64)
	s.value = v
	return s, err == nil && v >= 0 && !math.IsInf(v, 0) // which NaN is not, either
}

// closing is where the brace that labels begin with is closed; -1: nowhere.
func closing(labels []byte) int {
	quoted := false
	for i := 0; i < len(labels); i++ {
		switch c := labels[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i
		}
	}
	return -1
}

// label is the value of one label, as it was written; empty without it.
func (s *series) label(name string) string {
	for rest := s.labels; len(rest) > 0; {
		key, after, ok := bytes.Cut(rest, []byte(`="`))
		if !ok {
			return ""
		}
		end := 0
		for end < len(after) && after[end] != '"' {
			if after[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(after) {
			return ""
		}
		if string(bytes.Trim(key, ", ")) == name {
			return string(after[:end])
		}
		rest = after[end+1:]
	}
	return ""
}

// add takes one series in and reports whether it is one that Sample speaks of.
func (s *Sample) add(one series) bool {
	v := one.value
	switch one.name {
	case "num_requests_running":
		s.Running += v
	case "num_requests_waiting":
		s.Waiting += v
	case "num_requests_waiting_by_reason":
		if one.label("reason") == "deferred" {
			s.Deferred += v
		}
	case "lora_requests_info":
		// A series for each set of adapters that ever ran, without end; all of them tell the same of this.
		if n, err := strconv.Atoi(one.label("max_lora")); s.MaxLoRAs == 0 && err == nil && n > 0 && n <= maxModels {
			s.MaxLoRAs = n
			return true
		}
		return false
	case "kv_cache_usage_perc":
		s.KVUsage = min(max(s.KVUsage, v), 1)
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
	case "e2e_request_latency_seconds_sum":
		s.RequestSec += v
	case "e2e_request_latency_seconds_count":
		s.Requests += v
	case "request_success_total":
		reason := cleaned(one.label("finished_reason"), 32)
		if _, seen := s.Finished[reason]; seen || len(s.Finished) < maxReasons {
			s.Finished[reason] += v
		}
	default:
		return false
	}
	return true
}
