package openloop

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/trials/experiment/staticbatch"
	"github.com/millrace/millrace/trials/experiment/wholebatch"
)

// TestImpossibleSettings: what cannot be played ends with an error that says why.
func TestImpossibleSettings(t *testing.T) {
	t.Parallel()
	one := []Request{{Prompt: 5000, Output: 10}}
	engines := func(cfg wholebatch.WholeBatchConfig) func(int) (enginemodel.Engine, error) {
		return func(int) (enginemodel.Engine, error) { return wholebatch.NewWholeBatch(cfg) }
	}
	for _, tt := range []struct {
		name    string
		setting Setting
		want    string
	}{
		{"no requests", Setting{Engines: 1}, "no requests"},
		{"no engines", Setting{Requests: one}, "0 engines"},
		{"negative tokens", Setting{Requests: []Request{{Prompt: -1}}, Engines: 1}, "-1 prompt"},
		{"unsorted", Setting{Requests: []Request{{At: time.Second}, {At: 0}}, Engines: 1}, "request 1 comes at 0s"},
		{"an engine that cannot be made", Setting{Requests: one, Engines: 1,
			Engine: engines(wholebatch.WholeBatchConfig{})}, "no batch time"},
		{"nobody serves the model", Setting{Requests: []Request{{Model: "b", Output: 1}}, Engines: 1,
			Engine: engines(wholebatch.WholeBatchConfig{Time: wholebatch.LongestTime(1)}),
			Models: func(int) []string { return []string{"a"} }}, "rejected"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Play(tt.setting)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestMetricsByHand: three requests of 10, 20 and 10 tokens, a second per token of the longest, at most two at a time.
// The first goes alone; the others come while it is worked on, and share a batch.
func TestMetricsByHand(t *testing.T) {
	t.Parallel()
	requests := []Request{{At: time.Second, Output: 10}, {At: 2 * time.Second, Output: 20},
		{At: 3 * time.Second, Output: 10}}
	out, err := Play(Setting{Requests: requests, Engines: 2, Limit: 2,
		Engine: func(number int) (enginemodel.Engine, error) {
			return wholebatch.NewWholeBatch(wholebatch.WholeBatchConfig{Time: wholebatch.LongestTime(1)})
		},
		Models:   func(number int) []string { return [][]string{{anyModel}, {"other"}}[number] },
		Batching: staticbatch.Rules{MaxBatchSize: 2}})
	if err != nil {
		t.Fatal(err)
	}
	want := Metrics{Requests: 3, Mean: (10 + 29 + 28) / 3.0, P50: 28, P95: 28.9, P99: 28.98, Max: 29, Violations: 1 / 3.0,
		Throughput: 0.1, Goodput: 0.1 * 2 / 3.0, Busy: 30 / 62.0, Batches: 2, BatchMean: 1.5, Padding: 1 - 40/50.0, End: 31,
		Tokens: 40}
	got := out.Metrics(requests, 28500*time.Millisecond)
	if !near(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	one := out.Composition(0, func(int) int { return 0 }, func(i int) int { return requests[i].Output })
	if one.Batches != 2 || one.Variance != 12.5 || one.Range != 5 || one.Padding != 0.125 {
		t.Errorf("composition %+v", one)
	}
}

// near reports whether two sums agree but for rounding.
func near(a, b Metrics) bool {
	x := []float64{a.Mean, a.P50, a.P95, a.P99, a.Max, a.Violations, a.Throughput, a.Goodput, a.Busy, a.BatchMean,
		a.Padding, a.End}
	y := []float64{b.Mean, b.P50, b.P95, b.P99, b.Max, b.Violations, b.Throughput, b.Goodput, b.Busy, b.BatchMean,
		b.Padding, b.End}
	for i := range x {
		if d := x[i] - y[i]; d > 1e-9 || d < -1e-9 {
			return false
		}
	}
	return a.Requests == b.Requests && a.Batches == b.Batches && a.Tokens == b.Tokens
}
