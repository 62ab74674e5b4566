package prom

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/millrace/millrace/internal/rollout"
)

// NewWorker makes the metrics of one worker process: its slots, the games that it plays by run, the Go runtime's own
// metrics, and others', such as the Temporal SDK's. What the service tells of runs and engines is the servers' to
// answer.
func NewWorker(slots int, playing func() map[rollout.RunName]int, others ...prometheus.Collector) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		workerGames{slots: slots, playing: playing},
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
	slots   int
	playing func() map[rollout.RunName]int
}

var (
	slotsDesc = prometheus.NewDesc(prefix+"worker_slots", "Games that this worker may play at a time.", nil, nil)
	gamesDesc = prometheus.NewDesc(prefix+"worker_games", "Games that this worker plays now. Absent: none.",
		[]string{"run"}, nil)
)

func (w workerGames) Describe(out chan<- *prometheus.Desc) {
	out <- slotsDesc
	out <- gamesDesc
}

func (w workerGames) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(slotsDesc, prometheus.GaugeValue, float64(w.slots))
	for run, n := range w.playing() {
		out <- prometheus.MustNewConstMetric(gamesDesc, prometheus.GaugeValue, float64(n), string(run))
	}
}
