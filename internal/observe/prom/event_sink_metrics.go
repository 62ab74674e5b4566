package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// ShowSinks shows the sinks of the deployment, read whenever Prometheus asks, at the server that shows the deployment.
func (m *Metrics) ShowSinks(read func() []telemetry.SinkStatus) { m.whole.MustRegister(sinks{read}) }

// sinks is the sinks of the deployment as metrics.
type sinks struct{ read func() []telemetry.SinkStatus }

// Describe names the metrics.
func (s sinks) Describe(out chan<- *prometheus.Desc) { describe("sinks", out) }

// Collect reads the sinks.
func (s sinks) Collect(out chan<- prometheus.Metric) {
	for _, sink := range s.read() {
		of := func(name string, v float64, labels ...string) {
			show(out, name, v, append([]string{sink.Sink}, labels...)...)
		}
		for _, state := range telemetry.SinkStates {
			of("sink_state", truth(sink.State == state), string(state))
		}
		of("sink_degraded", truth(sink.State.NeedsAction()))
		of("sink_lag_seconds", sink.LagSec)
		of("sink_backlog_events", float64(sink.Backlog))
		of("sink_dead_letters", float64(sink.DeadLetters))
		of("sink_requests_total", float64(sink.Requests))
		of("sink_events_total", float64(sink.Written), "written")
		of("sink_events_total", float64(sink.Delivered), "delivered")
		of("sink_events_total", float64(sink.DeadLettered), "dead_lettered")
		of("sink_events_total", float64(sink.LostFacts), "lost_fact")
		of("sink_events_total", float64(sink.LostSamples), "lost_sample")
		of("sink_events_total", float64(sink.LostLetters), "lost_letter")
	}
}
