package prom

import (
	_ "embed"
	"encoding/json"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/observe/prom/processmetrics"
)

// prefix leads every name.
const prefix = "millrace_"

// definition is what metrics.json says of a metric.
type definition struct {
	Help    string
	Labels  []string
	Type    string // counter, gauge or histogram
	Buckets string // of a histogram
	From    string // events, process (this one), redis (what stands there), or sinks

	desc *prometheus.Desc
}

//go:embed metrics.json
var metricsFile []byte

// definitions is every metric of servers by its name.
var definitions = func() (all map[string]*definition) {
	if err := json.Unmarshal(metricsFile, &all); err != nil {
		panic(err) // it is a part of the program
	}
	all["sink_events_total"].Help = processmetrics.SinkEventsHelp
	all["sink_degraded"].Help = processmetrics.SinkDegradedHelp
	for name, of := range all {
		of.desc = prometheus.NewDesc(prefix+name, of.Help, of.Labels, nil)
	}
	return all
}()

// buckets: doubling, for what lasts from a tenth of a second to an hour, and from a hundredth of a second to minutes;
// and one for each version.
var buckets = map[string][]float64{
	"long":     prometheus.ExponentialBuckets(0.1, 2, 16),
	"short":    prometheus.ExponentialBuckets(0.01, 2, 14),
	"versions": prometheus.LinearBuckets(0, 1, 9),
}

// vectors is the metrics that this process counts, by name. A name that metrics.json does not have is a panic.
type vectors struct {
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*prometheus.HistogramVec
}

// newVectors makes them, those of events for one registry and those of this process for another.
func newVectors(whole, process *prometheus.Registry) vectors {
	v := vectors{map[string]*prometheus.CounterVec{}, map[string]*prometheus.GaugeVec{},
		map[string]*prometheus.HistogramVec{}}
	registries := map[string]*prometheus.Registry{"events": whole, "process": process}
	for name, of := range definitions {
		to := registries[of.From]
		if to == nil {
			continue // read when it is asked for
		}
		options := prometheus.Opts{Name: prefix + name, Help: of.Help}
		switch of.Type {
		case "counter":
			v.counters[name] = prometheus.NewCounterVec(prometheus.CounterOpts(options), of.Labels)
			to.MustRegister(v.counters[name])
		case "gauge":
			v.gauges[name] = prometheus.NewGaugeVec(prometheus.GaugeOpts(options), of.Labels)
			to.MustRegister(v.gauges[name])
		default:
			v.histograms[name] = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: options.Name, Help: of.Help,
				Buckets: buckets[of.Buckets]}, of.Labels)
			to.MustRegister(v.histograms[name])
		}
	}
	return v
}

// count adds to a counter; what is not above 0 makes sense in none, and only has it shown.
func (v *vectors) count(name string, n float64, labels ...string) {
	v.counters[name].WithLabelValues(labels...).Add(positive(n))
}

func (v *vectors) set(name string, to float64, labels ...string) {
	v.gauges[name].WithLabelValues(labels...).Set(to)
}

func (v *vectors) observe(name string, x float64, labels ...string) {
	v.histograms[name].WithLabelValues(labels...).Observe(x)
}

// endLevels ends all levels that have these labels: a gauge that is not set any more would show its last value forever.
func (v *vectors) endLevels(of prometheus.Labels) {
	for _, gauge := range v.gauges {
		gauge.DeletePartialMatch(of)
	}
}

// end ends every series that has these labels.
func (v *vectors) end(of prometheus.Labels) {
	v.endLevels(of)
	for _, counter := range v.counters {
		counter.DeletePartialMatch(of)
	}
	for _, histogram := range v.histograms {
		histogram.DeletePartialMatch(of)
	}
}

// describe names the metrics that are read when they are asked for.
func describe(from string, out chan<- *prometheus.Desc) {
	for _, of := range definitions {
		if of.From == from {
			out <- of.desc
		}
	}
}

// show is a metric that is read when it is asked for.
func show(out chan<- prometheus.Metric, name string, v float64, labels ...string) {
	of, kind := definitions[name], prometheus.GaugeValue
	if of.Type == "counter" {
		kind = prometheus.CounterValue
	}
	out <- prometheus.MustNewConstMetric(of.desc, kind, v, labels...)
}
