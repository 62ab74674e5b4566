package seed003

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/sim/enginemodel"
	"github.com/millrace/millrace/internal/sim/openloop"
	"github.com/millrace/millrace/internal/sim/workload"
)

// surrogate is the surrogate of the note's 1,000 requests, 200 times as fast, from the first arrival on.
func surrogate(t *testing.T) []openloop.Request {
	t.Helper()
	trace, ok := workload.KnownTrace("burstgpt-surrogate")
	if !ok {
		t.Fatal("no surrogate")
	}
	first := trace.Arrivals[0].At
	var requests []openloop.Request
	for _, a := range trace.Arrivals {
		requests = append(requests, openloop.Request{At: (a.At - first) / 200, Prompt: a.Prompt, Output: a.Output,
			Predicted: a.Output})
	}
	return requests
}

// TestStaticFIFOMeetsPython: the digits are those of a program of thirty lines in Python, with its heapq and its
// floating point, of the surrogate. Its ties and those in order of arrival differ in the third digit.
func TestStaticFIFOMeetsPython(t *testing.T) {
	t.Parallel()
	requests := surrogate(t)
	for _, tt := range []struct {
		engines                                          int
		mean, p50, p95, p99, most, end, busy, violations float64
		batches                                          int
	}{
		{1, 3.9459053214286275, 3.659269857142931, 8.68193360714297, 9.53490985714295, 9.837834857142951,
			248.82497985714292, 0.4934399107663316, 0.786, 242},
		{2, 0.5883958297142864, 0.502254999999991, 1.3108347500000175, 1.7614088400000456, 1.9411391428571676, 247.7214,
			0.3706438903888458, 0.172, 540},
		{4, 0.3252918369999989, 0.24374999999999147, 0.8974269999999762, 1.2559889999999934, 2.1254600000000323, 247.7214,
			0.23368842679720014, 0.028, 871},
	} {
		cfg := Default(StaticFIFO, tt.engines, enginemodel.Seed003Time().Seconds)
		cfg.PythonTies = true
		out, err := Play(requests, cfg)
		if err != nil {
			t.Fatal(err)
		}
		m := out.Metrics(requests, time.Second)
		for name, v := range map[string][2]float64{
			"mean": {m.Mean, tt.mean}, "p50": {m.P50, tt.p50}, "p95": {m.P95, tt.p95}, "p99": {m.P99, tt.p99},
			"max": {m.Max, tt.most}, "end": {m.End, tt.end}, "busy": {m.Busy, tt.busy},
			"violations": {m.Violations, tt.violations}, "batches": {float64(m.Batches), float64(tt.batches)},
			"tokens": {float64(m.Tokens), 783_060},
		} {
			if math.Abs(v[0]-v[1]) > 1e-9 {
				t.Errorf("%d engines, %s: got %.12g, want %.12g", tt.engines, name, v[0], v[1])
			}
		}
	}
}

// TestHeapIsPythons: the order is that of Python's heapq for the same pushes and pops, when only times are compared.
func TestHeapIsPythons(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		inOrder bool
		want    []int
	}{
		{"as heapq", false, []int{1, 2, 4, 9, 8, 12, 6, 11, 3, 13, 7, 5, 10, 0}},
		{"in order", true, []int{1, 2, 4, 8, 9, 12, 3, 6, 7, 11, 13, 0, 5, 10}},
	} {
		h := eventHeap{inOrder: tt.inOrder}
		for i, at := range []float64{3, 1, 1, 2, 1, 3, 2, 2, 1, 1, 3, 2} {
			h.push(event{at: at, request: i})
		}
		var got []int
		for h.len() > 0 {
			got = append(got, h.pop().request)
			if len(got) == 3 {
				h.push(event{at: 1, request: 12})
				h.push(event{at: 2, request: 13})
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestControllerCollapses: when one long request makes every batch late, whatever its size, the controller shrinks
// batches to one, and when all is well again it does not come back.
func TestControllerCollapses(t *testing.T) {
	t.Parallel()
	c := newController(Default(DynamicNoBins, 1, nil))
	if got := c.target(); got != 64 {
		t.Errorf("it begins with %d, want the middle, 64", got)
	}
	for range 200 {
		c.learn(2, 500, c.target())
	}
	if got := c.target(); got != 1 {
		t.Errorf("after 200 late batches: %d, want 1", got)
	}
	for range 200 {
		c.learn(0.1, 500, c.target())
	}
	if got := c.target(); got > 2 {
		t.Errorf("after 200 early batches: %d; it cannot grow, since a third of so small a batch is no request", got)
	}
}

// TestPlayServesEverybody: each request is served once, by an engine that works on one batch at a time.
func TestPlayServesEverybody(t *testing.T) {
	t.Parallel()
	requests := surrogate(t)
	for _, policy := range []Policy{StaticFIFO, DynamicNoBins, MultiBinDynamic} {
		for _, engines := range []int{1, 4} {
			out, err := Play(requests, Default(policy, engines, enginemodel.Seed003Time().Seconds))
			if err != nil {
				t.Fatal(err)
			}
			free := make([]time.Duration, engines)
			served := 0
			for _, b := range out.Batches {
				served += len(b.Requests)
				if b.Sent < free[b.Engine] {
					t.Fatalf("%s: engine %d began a batch at %v and was busy until %v", policy, b.Engine, b.Sent, free[b.Engine])
				}
				free[b.Engine] = out.Served[b.Requests[0]].Ended
			}
			if served != len(requests) {
				t.Errorf("%s: %d of %d requests were served", policy, served, len(requests))
			}
		}
	}
	if _, err := Play(nil, Default(StaticFIFO, 1, nil)); err == nil {
		t.Error("no requests were played")
	}
	if _, err := Play(requests, Default("other", 1, nil)); err == nil {
		t.Error("an unknown policy was played")
	}
}

// TestMarginOfATenth: with room for 10,000 tokens and requests of 500 the note allows 18 in a batch, whatever their
// deviation. Equation 12 of the paper allows 16 (package openloop tests it at work).
func TestMarginOfATenth(t *testing.T) {
	t.Parallel()
	cfg := Default(DynamicNoBins, 1, nil)
	cfg.Memory = 10_000
	if got := newController(cfg).target(); got != 18 {
		t.Errorf("got %d, want 18", got)
	}
}

// TestControllersMeetPython: mean and longest latency, batches and violations are those of the note's rules in Python,
// with predictions without noise: 1.5 x prompt^0.7.
func TestControllersMeetPython(t *testing.T) {
	t.Parallel()
	requests := surrogate(t)
	for i := range requests {
		requests[i].Predicted = max(1, min(4096, int(math.Pow(float64(requests[i].Prompt), 0.7)*1.5)))
	}
	for _, tt := range []struct {
		policy     Policy
		engines    int
		mean, most float64
		batches    int
		violations float64
	}{
		{DynamicNoBins, 1, 2.2419038592228224, 7.678220413175069, 249, 0.636},
		{DynamicNoBins, 2, 0.5947164116190482, 1.9411391428571676, 542, 0.179},
		{DynamicNoBins, 4, 0.3252918369999989, 2.1254600000000323, 871, 0.028},
		{MultiBinDynamic, 1, 1.4286784165356579, 8.020055057922463, 290, 0.574},
		{MultiBinDynamic, 2, 0.5896871489047608, 3.289773333333329, 594, 0.168},
		{MultiBinDynamic, 4, 0.30655692999999873, 1.7836200000000133, 896, 0.011},
	} {
		cfg := Default(tt.policy, tt.engines, enginemodel.Seed003Time().Seconds)
		cfg.PythonTies = true
		out, err := Play(requests, cfg)
		if err != nil {
			t.Fatal(err)
		}
		m := out.Metrics(requests, time.Second)
		if math.Abs(m.Mean-tt.mean) > 1e-9 || math.Abs(m.Max-tt.most) > 1e-9 || m.Batches != tt.batches ||
			m.Violations != tt.violations {
			t.Errorf("%s on %d: mean %.12g, longest %.12g, %d batches, %g violations; want %+v", tt.policy, tt.engines, m.Mean,
				m.Max, m.Batches, m.Violations, tt)
		}
	}
}
