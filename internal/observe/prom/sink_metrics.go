package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// Names and help of what is said of sinks, and of a process's own way into the store.
const (
	sinkEventsName = prefix + "sink_events_total"
	sinkEventsHelp = "Events by what became of them. Of a sink of the deployment: written (to the store), delivered, " +
		"dead_lettered (refused), lost_fact and lost_sample (let go before they were delivered), lost_letter (dead letters " +
		"that were dropped). written = delivered + lost_* + millrace_sink_dead_letters + millrace_sink_backlog_events. Of " +
		"the store, by process: delivered, lost."
)

// Sink is what became of the events that this process gave to its event store.
type Sink struct {
	Delivered int64
	Lost      int64
	Waiting   int
	Degraded  bool // cannot deliver until somebody changes something
	// SpoolBytes is facts that wait on the disk.
	SpoolBytes int64
}

// Watch shows a sink of this process under its name, such as store, read whenever Prometheus asks. A name is watched
// once.
func (m *Metrics) Watch(name string, read func() Sink) {
	m.registry.MustRegister(WatchSink(name, read)...)
}

// WatchSink is the same for a process that is no server.
func WatchSink(name string, read func() Sink) []prometheus.Collector {
	labels := prometheus.Labels{"sink": name}
	result := func(result string, value func(Sink) int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: sinkEventsName, Help: sinkEventsHelp, ConstLabels: prometheus.Labels{"sink": name, "result": result},
		}, func() float64 { return float64(value(read())) })
	}
	return []prometheus.Collector{
		result("delivered", func(s Sink) int64 { return s.Delivered }),
		result("lost", func(s Sink) int64 { return s.Lost }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "sink_waiting_events", Help: "Events waiting to be written to the store.", ConstLabels: labels,
		}, func() float64 { return float64(read().Waiting) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "sink_spool_bytes", Help: "Facts that wait on the disk.", ConstLabels: labels,
		}, func() float64 { return float64(read().SpoolBytes) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "sink_degraded", Help: sinkDegradedHelp, ConstLabels: labels,
		}, func() float64 { return truth(read().Degraded) }),
	}
}

const sinkDegradedHelp = "1 while nothing is delivered until somebody changes something."

// ShowSinks shows the sinks of the deployment, read whenever Prometheus asks, at the server that shows the deployment.
func (m *Metrics) ShowSinks(read func() []telemetry.SinkStatus) { m.whole.MustRegister(sinks{read}) }

// sinks is the sinks of the deployment as metrics.
type sinks struct{ read func() []telemetry.SinkStatus }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	sinkEvents = desc(sinkEventsName, sinkEventsHelp, "sink", "result")
	sinkState  = desc(prefix+"sink_state", "1 for the state in which a sink is: ok, retrying (no answer, or "+
		"errors), limited "+
		"(429, 430), degraded (refuses token, dataset or address), parked (refuses every event), stopped (no server "+
		"delivers).",
		"sink", "state")
	sinkDegraded = desc(prefix+"sink_degraded", sinkDegradedHelp, "sink")
	sinkLag      = desc(prefix+"sink_lag_seconds", "Age of the oldest event that is not delivered.", "sink")
	sinkBacklog  = desc(prefix+"sink_backlog_events", "Events kept in the store and not delivered.", "sink")
	sinkLetters  = desc(prefix+"sink_dead_letters", "Refused events that are kept: millrace axiom "+
		"dead-letters.", "sink")
	sinkRequests = desc(prefix+"sink_requests_total", "Requests sent to a sink.", "sink")
)

// Describe names the metrics.
func (s sinks) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sinkEvents, sinkState, sinkDegraded, sinkLag, sinkBacklog, sinkLetters,
		sinkRequests} {
		out <- d
	}
}

// Collect reads the sinks.
func (s sinks) Collect(out chan<- prometheus.Metric) {
	for _, sink := range s.read() {
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			labels = append([]string{sink.Sink}, labels...)
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
		}
		counter := func(d *prometheus.Desc, v int64, labels ...string) {
			labels = append([]string{sink.Sink}, labels...)
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
		}
		for _, state := range telemetry.SinkStates {
			gauge(sinkState, truth(sink.State == state), string(state))
		}
		gauge(sinkDegraded, truth(sink.State.NeedsAction()))
		gauge(sinkLag, sink.LagSec)
		gauge(sinkBacklog, float64(sink.Backlog))
		gauge(sinkLetters, float64(sink.DeadLetters))
		counter(sinkRequests, sink.Requests)
		counter(sinkEvents, sink.Written, "written")
		counter(sinkEvents, sink.Delivered, "delivered")
		counter(sinkEvents, sink.DeadLettered, "dead_lettered")
		counter(sinkEvents, sink.LostFacts, "lost_fact")
		counter(sinkEvents, sink.LostSamples, "lost_sample")
		counter(sinkEvents, sink.LostLetters, "lost_letter")
	}
}
