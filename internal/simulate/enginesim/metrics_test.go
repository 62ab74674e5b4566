package enginesim

import (
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scraped are metric families by name, without the prefix.
type scraped map[string]family

type family struct {
	kind   string
	series []reading
}

type reading struct {
	labels map[string]string
	value  float64 // of a histogram: how many observations
}

// scrape reads /metrics as a collector does.
func (r *rig) scrape() scraped {
	r.t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(r.get("/metrics").body))
	if err != nil {
		r.t.Fatal(err)
	}
	out := scraped{}
	for name, f := range families {
		read := family{kind: f.GetType().String()}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			read.series = append(read.series, reading{labels,
				m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())})
		}
		out[strings.TrimPrefix(name, "vllm:")] = read
	}
	return out
}

// value is the one series of a family that has these labels.
func (s scraped) value(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	for _, one := range s[name].series {
		matches := true
		for i := 0; i+1 < len(labels); i += 2 {
			matches = matches && one.labels[labels[i]] == labels[i+1]
		}
		if matches {
			return one.value
		}
	}
	t.Fatalf("vllm:%s has no series with %v", name, labels)
	return 0
}

func TestMetricNames(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	r.completion(`{"prompt": "x"}`)
	families := r.scrape()
	want := map[string][]string{
		"GAUGE": {"num_requests_running", "num_requests_waiting", "num_requests_waiting_by_reason", "kv_cache_usage_perc"},
		"COUNTER": {"prompt_tokens_total", "generation_tokens_total", "prefix_cache_queries_total",
			"prefix_cache_hits_total", "num_preemptions_total", "request_success_total"},
		"HISTOGRAM": {"e2e_request_latency_seconds"},
	}
	for kind, names := range want {
		for _, name := range names {
			if got := families[name].kind; got != kind {
				t.Errorf("vllm:%s is a %q, want %q", name, got, kind)
			}
		}
	}
}

func TestCountersAgreeWithUsage(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	prompt, output, calls := 0, 0, 0
	for _, body := range []string{`{"prompt": "A PAR H", "max_tokens": 5, "ignore_eos": true}`, regexRequest("")} {
		c := r.completion(body)
		prompt += c.Usage.PromptTokens
		output += c.Usage.CompletionTokens
		calls++
	}
	f := r.scrape()
	labels := []string{"model_name", "qwen", "engine", "0"}
	for name, want := range map[string]int{
		"prompt_tokens_total": prompt, "generation_tokens_total": output, "e2e_request_latency_seconds": calls,
		"prefix_cache_queries_total": prompt, "num_requests_running": 0, "num_requests_waiting": 0,
	} {
		if got := f.value(t, name, labels...); got != float64(want) {
			t.Errorf("vllm:%s is %g, want %d", name, got, want)
		}
	}
	finished := f.value(t, "request_success_total", "finished_reason", "stop") +
		f.value(t, "request_success_total", "finished_reason", "length")
	if finished != float64(calls) {
		t.Errorf("%g requests finished, want %d", finished, calls)
	}
}
