package prom

import "github.com/prometheus/client_golang/prometheus"

// Sink is what became of the events given to another sink.
type Sink struct {
	Delivered int64
	Rejected  int64 // refused for what they are
	Lost      int64
	Waiting   int
	Degraded  bool // cannot deliver until somebody changes something
}

// Watch shows a sink under its name, such as store or axiom, read whenever Prometheus asks. A name is watched once.
func (m *Metrics) Watch(name string, read func() Sink) {
	labels := prometheus.Labels{"sink": name}
	result := func(result string, value func(Sink) int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: prefix + "sink_events_total", Help: "Events by what became of them in a sink: delivered, rejected, lost.",
			ConstLabels: prometheus.Labels{"sink": name, "result": result},
		}, func() float64 { return float64(value(read())) })
	}
	m.registry.MustRegister(
		result("delivered", func(s Sink) int64 { return s.Delivered }),
		result("rejected", func(s Sink) int64 { return s.Rejected }),
		result("lost", func(s Sink) int64 { return s.Lost }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "sink_waiting_events", Help: "Events waiting to be delivered.", ConstLabels: labels,
		}, func() float64 { return float64(read().Waiting) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "sink_degraded", Help: "1 while a sink cannot deliver until somebody changes something.",
			ConstLabels: labels,
		}, func() float64 {
			if read().Degraded {
				return 1
			}
			return 0
		}),
	)
}
