package prom

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Metrics is the sink. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry // of this process
	whole    *prometheus.Registry // of the deployment
	leads    func() bool
	exemplar func(rollout.RunName, rollout.GroupSeq) map[string]string
	vectors

	mu      sync.Mutex
	perStep map[rollout.RunName]float64    // groups in a batch, as the run's last step had it
	joining map[rollout.EngineID]time.Time // since when engines that are not ready yet have been joining
	over    map[rollout.RunName]bool       // runs that have no levels any more

	standing Standing
}

// New makes a sink with nothing in it.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		whole:    prometheus.NewRegistry(),
		leads:    func() bool { return true },
		perStep:  map[rollout.RunName]float64{},
		joining:  map[rollout.EngineID]time.Time{},
		over:     map[rollout.RunName]bool{},
	}
	m.vectors = newVectors(m.whole, m.registry)
	m.RedisAnswers(false) // so far
	m.whole.MustRegister(standingNow{m})
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "metrics_leader",
			Help: "1 at the server that shows the metrics of the deployment, 0 at the others, which show their own alone.",
		}, func() float64 { return truth(m.leads()) }))
	return m
}

// ShowWhole has the metrics of the deployment shown only while leads says so. Every server counts all events, and one
// shows them, so that a sum over servers counts nothing twice; a server that takes over has counted all the while.
func (m *Metrics) ShowWhole(leads func() bool) { m.leads = leads }

// Registry takes further collectors of this process.
func (m *Metrics) Registry() prometheus.Registerer { return m.registry }

// Handler answers Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.Gatherer(), promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true})
}

// Gatherer is what Handler answers.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		if !m.leads() {
			return m.registry.Gather()
		}
		return prometheus.Gatherers{m.registry, m.whole}.Gather()
	})
}

// Exemplars has measurements of groups carry labels, such as the trace that they are found in; nil: none for a group.
func (m *Metrics) Exemplars(of func(rollout.RunName, rollout.GroupSeq) map[string]string) {
	m.exemplar = of
}

// Goodput is the share of a run's time that was useful compute, by the ledger of its diagnosis; that of a run that is
// over is forgotten.
func (m *Metrics) Goodput(run rollout.RunName, share float64, over bool) {
	if over {
		m.gauges["goodput_ratio"].DeleteLabelValues(string(run))
		return
	}
	m.set("goodput_ratio", share, string(run))
}

// RedisAnswers shows whether Redis answered this server.
func (m *Metrics) RedisAnswers(yes bool) { m.set("redis_up", truth(yes)) }

// Refused counts a request or a connection that this server turned away.
func (m *Metrics) Refused(reason string) { m.count("refused_total", 1, reason) }

// Panicked counts a fault of the program that this server survived.
func (m *Metrics) Panicked(in string) { m.count("panics_total", 1, in) }

// Breakers shows how many live workers do not dispatch to each engine; the others have none.
func (m *Metrics) Breakers(workers []enginestate.Worker) {
	type label struct{ engine, scope string }
	open := map[label]int{}
	for _, w := range workers {
		if w.State != enginestate.WorkerAlive {
			continue
		}
		seen := map[label]bool{} // a worker counts once, however many runs it keeps away
		for _, b := range w.Breakers {
			scope := "one_run"
			if b.Run == "" {
				scope = "all_runs"
			}
			if l := (label{string(b.Engine), scope}); !seen[l] {
				seen[l] = true
				open[l]++
			}
		}
	}
	m.gauges["engine_breaker_open"].Reset()
	for l, n := range open {
		m.set("engine_breaker_open", float64(n), l.engine, l.scope)
	}
}
