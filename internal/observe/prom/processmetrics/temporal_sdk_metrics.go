package processmetrics

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"
)

// TemporalMetrics collects what the Temporal SDK measures of itself in a process: requests, task latencies, pollers,
// slots. The SDK gives one metric other labels in other places, so they are kept by their own labels each.
type TemporalMetrics struct {
	mu     sync.Mutex
	series map[string]*temporalSeries
}

// temporalSeries is one metric with one set of labels.
type temporalSeries struct {
	name, help string
	kind       prometheus.ValueType
	labels     prometheus.Labels
	value      float64
	latency    prometheus.Histogram // of a timer
}

var _ prometheus.Collector = (*TemporalMetrics)(nil)

// NewTemporalMetrics makes a collector with nothing in it.
func NewTemporalMetrics() *TemporalMetrics {
	return &TemporalMetrics{series: map[string]*temporalSeries{}}
}

// Handler is what the SDK reports to.
func (t *TemporalMetrics) Handler() client.MetricsHandler { return temporalHandler{t, nil} }

// Describe says nothing: what there is shows only while the SDK works.
func (t *TemporalMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect shows every series.
func (t *TemporalMetrics) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.series {
		if s.latency != nil {
			out <- s.latency
			continue
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(s.name, s.help, nil, s.labels), s.kind, s.value)
	}
}

// of is the series of a name and labels.
func (t *TemporalMetrics) of(name, help string, kind prometheus.ValueType, labels prometheus.Labels,
	timer bool) *temporalSeries {
	key := name
	for _, l := range slices.Sorted(maps.Keys(labels)) {
		key += "\x00" + l + "\x00" + labels[l]
	}
	s := t.series[key]
	if s == nil {
		s = &temporalSeries{name: name, help: help, kind: kind, labels: labels}
		if timer {
			s.latency = prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: labels,
				Buckets: latencies})
		}
		t.series[key] = s
	}
	return s
}

// latencies doubles from a hundredth of a second to minutes.
var latencies = prometheus.ExponentialBuckets(0.01, 2, 14)

type temporalHandler struct {
	metrics *TemporalMetrics
	labels  prometheus.Labels
}

// WithTags adds labels. A queue of one run's games is shown as that of all games: queues come and go with runs.
func (h temporalHandler) WithTags(tags map[string]string) client.MetricsHandler {
	labels := prometheus.Labels{}
	maps.Copy(labels, h.labels)
	for name, value := range tags {
		if before, _, is := strings.Cut(value, "-games/"); is && name == "task_queue" {
			value = before + "-games"
		}
		labels[labelName(name)] = value
	}
	return temporalHandler{h.metrics, labels}
}

// labelName is a tag's name as Prometheus takes it.
func labelName(tag string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, tag)
}

func (h temporalHandler) Counter(name string) client.MetricsCounter {
	name = labelName(strings.TrimSuffix(name, "_total")) + "_total"
	return temporalCounter(func(n int64) {
		h.metrics.mu.Lock()
		defer h.metrics.mu.Unlock()
		h.metrics.of(name, "Counted by the Temporal SDK.", prometheus.CounterValue, h.labels, false).value +=
			float64(max(n, 0)) // a counter never falls
	})
}

func (h temporalHandler) Gauge(name string) client.MetricsGauge {
	name = labelName(name)
	return temporalGauge(func(v float64) {
		h.metrics.mu.Lock()
		defer h.metrics.mu.Unlock()
		h.metrics.of(name, "A level that the Temporal SDK reports.", prometheus.GaugeValue, h.labels, false).value = v
	})
}

func (h temporalHandler) Timer(name string) client.MetricsTimer {
	name = labelName(strings.TrimSuffix(name, "_seconds")) + "_seconds"
	return temporalTimer(func(d time.Duration) {
		h.metrics.mu.Lock()
		defer h.metrics.mu.Unlock()
		h.metrics.of(name, "Time that the Temporal SDK measured.", 0, h.labels, true).latency.Observe(d.Seconds())
	})
}

type (
	temporalCounter func(int64)
	temporalGauge   func(float64)
	temporalTimer   func(time.Duration)
)

func (f temporalCounter) Inc(n int64)          { f(n) }
func (f temporalGauge) Update(v float64)       { f(v) }
func (f temporalTimer) Record(d time.Duration) { f(d) }
