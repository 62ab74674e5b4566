// Package processmetrics is what any process of the service shows Prometheus of itself: its way into the event store,
// what the Temporal SDK measures, and of a worker its games, requests and shares. What events tell of runs and engines
// is package prom's, at servers.
//
// Start reading at NewWorker.
package processmetrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// prefix leads every name.
const prefix = "millrace_"

// NewWorker makes the metrics of one worker process: its slots, the games that it plays by run, its requests and shares
// of the engines as it describes itself, the Go runtime's own metrics, and others', such as the Temporal SDK's. What
// the service tells of runs and engines is the servers' to answer.
func NewWorker(slots int, playing func() map[rollout.RunName]int, described func() enginestate.Worker,
	others ...prometheus.Collector) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		workerGames{slots: slots, playing: playing, described: described},
	)
	registry.MustRegister(others...)
	return registry
}

// WorkerHandler answers Prometheus with what a worker's registry has.
func WorkerHandler(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// workerGames reads the games when it is asked.
type workerGames struct {
	slots     int
	playing   func() map[rollout.RunName]int
	described func() enginestate.Worker
}

var (
	slotsDesc = prometheus.NewDesc(prefix+"worker_slots", "Games that this worker may play at a time.", nil, nil)
	gamesDesc = prometheus.NewDesc(prefix+"worker_games", "Games that this worker plays now. Absent: none.",
		[]string{"run"}, nil)
	requestsDesc = prometheus.NewDesc(prefix+"worker_requests",
		"Requests of this worker's games now, by place: queued or in_flight. Absent: none.", []string{"run", "place"}, nil)
	shareDesc = prometheus.NewDesc(prefix+"worker_share",
		"Requests that this worker may have in flight at an engine: its share of the engine's limit.",
		[]string{"engine"}, nil)
)

func (w workerGames) Describe(out chan<- *prometheus.Desc) {
	out <- slotsDesc
	out <- gamesDesc
	out <- requestsDesc
	out <- shareDesc
}

func (w workerGames) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(slotsDesc, prometheus.GaugeValue, float64(w.slots))
	for run, n := range w.playing() {
		out <- prometheus.MustNewConstMetric(gamesDesc, prometheus.GaugeValue, float64(n), string(run))
	}
	self := w.described()
	for run, n := range self.Requests {
		for place, requests := range map[string]int{"queued": n.Queued, "in_flight": n.InFlight} {
			out <- prometheus.MustNewConstMetric(requestsDesc, prometheus.GaugeValue, float64(requests), string(run), place)
		}
	}
	for engine, n := range self.Shares {
		out <- prometheus.MustNewConstMetric(shareDesc, prometheus.GaugeValue, float64(n), string(engine))
	}
}
