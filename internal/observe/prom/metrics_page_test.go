package prom

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/kit/markdowntest"
	"github.com/millrace/millrace/internal/observe/prom/processmetrics"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// described reads a metric's description, which offers its parts as text only.
var described = regexp.MustCompile(`fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)", unit: "[^"]*", ` +
	`constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)

// constantLabel is the name of a label that has one value, such as sink="store".
var constantLabel = regexp.MustCompile(`(\w+)="`)

// watchedStore is the metrics of a process's own way into the event store.
func watchedStore() []prometheus.Collector {
	return processmetrics.WatchSink("store", func() processmetrics.Sink { return processmetrics.Sink{} })
}

// TestPageHasEveryMetric holds the table of docs/metrics.md to the metrics of servers and workers: go test -run Page
// -update rewrites it.
func TestPageHasEveryMetric(t *testing.T) {
	server := New()
	server.registry.MustRegister(watchedStore()...)
	server.ShowSinks(func() []telemetry.SinkStatus { return nil })
	worker := processmetrics.NewWorker(1, func() map[rollout.RunName]int { return nil },
		func() enginestate.Worker { return enginestate.Worker{} }, watchedStore()...)
	rows, shownBy := map[string][]string{}, map[string][]string{}
	for _, from := range []struct {
		of      string
		metrics prometheus.Collector
	}{{"a server", server.registry}, {"the deployment", server.whole}, {"a worker", worker}} {
		for _, d := range descriptions(t, from.metrics) {
			if !strings.HasPrefix(d.name, prefix) {
				continue // of Go, the process, Temporal's SDK
			}
			kind := "gauge"
			if of := definitions[strings.TrimPrefix(d.name, prefix)]; of != nil {
				kind = of.Type
			} else if strings.HasSuffix(d.name, "_total") {
				kind = "counter"
			}
			name := d.name
			if d.labels != "" {
				name += "{" + d.labels + "}"
			}
			if rows[d.name] == nil {
				rows[d.name] = []string{"`" + name + "`", kind, d.help}
			}
			shownBy[d.name] = append(shownBy[d.name], from.of)
		}
	}
	table := markdowntest.Head("metric", "type", "of", "meaning")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		table += markdowntest.Row(row[0], row[1], strings.Join(shownBy[name], ", "), row[2])
	}
	markdowntest.Hold(t, "../../../docs/metrics.md", "metrics", table)
}

type description struct{ name, help, labels string }

func descriptions(t *testing.T, c prometheus.Collector) []description {
	t.Helper()
	out := make(chan *prometheus.Desc)
	go func() {
		defer close(out)
		c.Describe(out)
	}()
	var all []description
	for d := range out {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			t.Errorf("cannot read the description %s", d)
			continue
		}
		var labels []string
		for _, constant := range constantLabel.FindAllStringSubmatch(m[3], -1) {
			labels = append(labels, constant[1])
		}
		if m[4] != "" {
			labels = append(labels, m[4])
		}
		all = append(all, description{m[1], strings.ReplaceAll(m[2], `\"`, `"`), strings.Join(labels, ",")})
	}
	return all
}
