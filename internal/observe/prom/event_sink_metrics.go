package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/observe/prom/processmetrics"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// ShowSinks shows the sinks of the deployment, read whenever Prometheus asks, at the server that shows the deployment.
func (m *Metrics) ShowSinks(read func() []telemetry.SinkStatus) { m.whole.MustRegister(sinks{read}) }

// sinks is the sinks of the deployment as metrics.
type sinks struct{ read func() []telemetry.SinkStatus }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	sinkEvents = desc(processmetrics.SinkEventsName, processmetrics.SinkEventsHelp, "sink", "result")
	sinkState  = desc(prefix+"sink_state", "1 for the state in which a sink is: ok, retrying (no answer, or "+
		"errors), limited "+
		"(429, 430), degraded (refuses token, dataset or address), parked (refuses every event), stopped (no server "+
		"delivers).",
		"sink", "state")
	sinkDegraded = desc(prefix+"sink_degraded", processmetrics.SinkDegradedHelp, "sink")
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
