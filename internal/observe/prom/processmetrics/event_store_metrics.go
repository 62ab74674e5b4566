package processmetrics

import "github.com/prometheus/client_golang/prometheus"

// Name and help of the metrics of event outcomes: of a sink of the deployment, and of a process's own way into the
// store.
const (
	SinkEventsName = prefix + "sink_events_total"
	SinkEventsHelp = "Events by what became of them. Of a sink of the deployment: written (to the store), delivered, " +
		"dead_lettered (refused), lost_fact and lost_sample (let go before they were delivered), lost_letter (dead letters " +
		"that were dropped). written = delivered + lost_* + millrace_sink_dead_letters + millrace_sink_backlog_events. Of " +
		"the store, by process: delivered, lost."
)

// Sink counts the outcomes of the events that this process gave to its event store.
type Sink struct {
	Delivered int64
	Lost      int64
	Waiting   int
	Degraded  bool // cannot deliver until a person changes something
	// SpoolBytes is facts that wait on the disk.
	SpoolBytes int64
}

// WatchSink shows a sink of this process under its name, such as store, read whenever Prometheus asks. A name is
// watched once.
func WatchSink(name string, read func() Sink) []prometheus.Collector {
	labels := prometheus.Labels{"sink": name}
	result := func(result string, value func(Sink) int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: SinkEventsName, Help: SinkEventsHelp, ConstLabels: prometheus.Labels{"sink": name, "result": result},
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
			Name: prefix + "sink_degraded", Help: SinkDegradedHelp, ConstLabels: labels,
		}, func() float64 {
			if read().Degraded {
				return 1
			}
			return 0
		}),
	}
}

// SinkDegradedHelp is the help of millrace_sink_degraded.
const SinkDegradedHelp = "1 while nothing is delivered until somebody changes something."
