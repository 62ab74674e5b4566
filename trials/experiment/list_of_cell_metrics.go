package experiment

import (
	"slices"
	"strconv"
	"strings"
)

// Metric is one thing that is measured in a cell.
type Metric struct {
	Name string
	Head string // of a column, with its unit
	Doc  string
	// Share: shown as percent.
	Share bool
}

// metrics is all of them, in the order in which they are listed. Times are in seconds.
var metrics = []Metric{
	{Name: "requests", Head: "REQUESTS", Doc: "requests that were answered"},
	{Name: "calls", Head: "CALLS", Doc: "calls that they came in"},
	{Name: "batches", Head: "BATCHES", Doc: "batches that engines worked on"},
	{Name: "batch_size", Head: "BATCH SIZE", Doc: "requests in a batch, mean"},
	{Name: "latency_mean", Head: "LATENCY MEAN (s)", Doc: "completion minus arrival"},
	{Name: "latency_p50", Head: "P50 (s)", Doc: "median latency; percentiles are interpolated linearly, as numpy does"},
	{Name: "latency_p95", Head: "P95 (s)", Doc: "95th percentile of the latency"},
	{Name: "latency_p99", Head: "P99 (s)", Doc: "99th percentile of the latency"},
	{Name: "latency_max", Head: "MAX (s)", Doc: "longest latency"},
	{Name: "wait_mean", Head: "WAIT MEAN (s)", Doc: "dispatch minus arrival"},
	{Name: "wait_p50", Head: "WAIT P50 (s)", Doc: "median wait"},
	{Name: "wait_p95", Head: "WAIT P95 (s)", Doc: "95th percentile of the wait"},
	{Name: "wait_max", Head: "WAIT MAX (s)", Doc: "longest wait"},
	{Name: "service_mean", Head: "BATCH TIME (s)", Doc: "time that a batch is worked on, mean"},
	{Name: "makespan", Head: "MAKESPAN (s)", Doc: "last completion minus first arrival"},
	{Name: "throughput", Head: "REQUESTS/s", Doc: "requests over makespan"},
	{Name: "tokens_per_s", Head: "OUTPUT TOKENS/s", Doc: "tokens of answers over makespan"},
	{Name: "violation", Head: "VIOLATIONS", Doc: "share of requests whose latency is more than slo", Share: true},
	{Name: "goodput", Head: "GOODPUT (1/s)", Doc: "throughput of requests that are no violation"},
	{Name: "infeasible", Head: "INFEASIBLE", Doc: "share of requests that no schedule could answer within slo: alone, " +
		"they take longer", Share: true},
	{Name: "util", Head: "GPU BUSY", Doc: "busy time over GPUs x last completion", Share: true},
	{Name: "util_min", Head: "LEAST BUSY GPU", Doc: "the same of the GPU that works least", Share: true},
	{Name: "util_max", Head: "MOST BUSY GPU", Doc: "the same of the GPU that works most", Share: true},
	{Name: "padding", Head: "PADDING", Doc: "1 - useful tokens / (batch size x longest), over all batches", Share: true},
	{Name: "rho", Head: "LOAD (rho)", Doc: "work that arrives per second, over what all engines do with full batches"},
	{Name: "gap_mean", Head: "GAP MEAN (s)", Doc: "time from call to call, mean"},
	{Name: "gap_median", Head: "GAP MEDIAN (s)", Doc: "time from call to call, median"},
	{Name: "gap_cv", Head: "GAP CV", Doc: "coefficient of variation of the times from call to call; 1: Poisson"},
	{Name: "merge", Head: "NEXT CALL WITHIN", Doc: "share of calls whose next one comes within the flush window: the " +
		"probability that an idle engine's wait merges two", Share: true},
	{Name: "done", Head: "DONE IN TIME", Doc: "requests answered by the horizon"},
	{Name: "done_batches", Head: "BATCHES IN TIME", Doc: "batches ended by the horizon"},
	{Name: "rejected", Head: "REJECTED", Doc: "requests that were not answered"},

	{Name: "step_first", Head: "FIRST STEP (s)", Doc: "length of step 0, without the wait before it"},
	{Name: "step_steady", Head: "STEADY STEP (s)", Doc: "mean length of the last half of the steps"},
	{Name: "step_mean", Head: "MEAN STEP (s)", Doc: "mean length of the steps after step 0"},
	{Name: "onset", Head: "FIRST SLOW STEP", Doc: "first step that takes 1.25 times as long as the median of the steps " +
		"before it; as many as there are steps if none does"},
	{Name: "prefill", Head: "PREFILL (s)", Doc: "time from the start of the run to the claim of step 0"},
	{Name: "total", Head: "TOTAL (s)", Doc: "time from the start of the run to the end of its last step"},
	{Name: "staleness", Head: "STALENESS", Doc: "mean staleness of groups when consumed, in the last half of the steps"},
	{Name: "starved", Head: "STARVED", Doc: "share of the last half of the steps that the trainer waits", Share: true},
	{Name: "busy", Head: "ENGINES BUSY", Doc: "share of the engines' time with a running request", Share: true},
	{Name: "in_flight", Head: "IN FLIGHT", Doc: "requests in flight at an engine, mean"},
	{Name: "engine_hours", Head: "ENGINE HOURS", Doc: "time that engines were paid for"},
	{Name: "engines_mean", Head: "ENGINES", Doc: "engines that were there, mean over time"},
	{Name: "dropped", Head: "DROPPED", Doc: "groups dropped as too stale"},
}

// MetricNamed is the metric of a name. Of a pipeline there are also step_K, the length of step K, and ready_K, the
// ready groups when it was claimed, in batches; of requests also bin_K_mean, bin_K_variance and so on, of the bins.
func MetricNamed(name string) (Metric, bool) {
	if i := slices.IndexFunc(metrics, func(m Metric) bool { return m.Name == name }); i >= 0 {
		return metrics[i], true
	}
	for _, numbered := range []struct{ prefix, head, doc string }{
		{"step_", "STEP %s (s)", "length of one step"},
		{"ready_", "READY AT %s", "ready groups when the step was claimed, in batches"},
	} {
		if k, ok := strings.CutPrefix(name, numbered.prefix); ok {
			if n, err := strconv.Atoi(k); err == nil && n >= 0 && strconv.Itoa(n) == k {
				return Metric{Name: name, Head: strings.Replace(numbered.head, "%s", k, 1), Doc: numbered.doc}, true
			}
		}
	}
	if k, ok := strings.CutPrefix(name, "bin_"); ok {
		bin, what, _ := strings.Cut(k, "_")
		i := slices.IndexFunc(binMetrics, func(m Metric) bool { return m.Name == what })
		if n, err := strconv.Atoi(bin); i >= 0 && err == nil && n >= 0 && strconv.Itoa(n) == bin {
			m := binMetrics[i]
			return Metric{Name: name, Head: strings.Replace(m.Head, "%s", bin, 1), Doc: m.Doc, Share: m.Share}, true
		}
	}
	return Metric{}, false
}
