package prom

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/observe/prom/processmetrics"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// exported is every metric of a server and a worker: its labels, its meaning, and the names of its series.
type exported struct {
	labels []string
	help   string
	series []string
}

// everyMetric is the metrics of servers and workers by name.
func everyMetric(t *testing.T) map[string]exported {
	t.Helper()
	server := New()
	server.registry.MustRegister(watchedStore()...)
	server.ShowSinks(func() []telemetry.SinkStatus { return nil })
	worker := processmetrics.NewWorker(1, func() map[rollout.RunName]int { return nil },
		func() enginestate.Worker { return enginestate.Worker{} })
	all := map[string]exported{}
	for _, c := range []prometheus.Collector{server.registry, server.whole, worker} {
		for _, d := range descriptions(t, c) {
			if !strings.HasPrefix(d.name, prefix) {
				continue
			}
			e := exported{labels: slices.DeleteFunc(strings.Split(d.labels, ","), func(l string) bool { return l == "" }),
				help: d.help, series: []string{d.name}}
			if of := definitions[strings.TrimPrefix(d.name, prefix)]; of != nil && of.Type == "histogram" {
				e.series = []string{d.name + "_bucket", d.name + "_sum", d.name + "_count"}
			}
			all[d.name] = e
		}
	}
	return all
}

// Parts of an expression: a metric or a recorded series with its selector, and the labels that something is grouped by.
var (
	selected = regexp.MustCompile(`([a-z_]+:)?(millrace_[a-z_]+)(:[a-z0-9_]+)?(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|on|without|ignoring)\s*\(([^)]*)\)`)
)

// ofScrapes is the labels that Prometheus adds itself, and those of histograms' buckets.
var ofScrapes = []string{"instance", "job", "le"}

// faultsOf says what an expression names that no process exports: metrics, labels, and values of labels of which the
// metric's meaning lists all.
func faultsOf(expr string, metrics map[string]exported, recorded []string) []string {
	bySeries := map[string]exported{}
	for _, e := range metrics {
		for _, s := range e.series {
			bySeries[s] = e
		}
	}
	var faults, labels []string
	if !strings.Contains(expr, prefix) {
		return nil // others' metrics
	}
	for _, m := range selected.FindAllStringSubmatch(expr, -1) {
		if m[1] != "" || m[3] != "" {
			if !slices.Contains(recorded, m[1]+m[2]+m[3]) {
				faults = append(faults, "nothing records "+m[1]+m[2]+m[3])
			}
			labels = append(labels, "run", "engine", "direction")
			continue
		}
		e, known := bySeries[m[2]]
		if !known {
			faults = append(faults, "no metric "+m[2])
			continue
		}
		labels = append(labels, e.labels...)
		for _, pair := range matcher.FindAllStringSubmatch(m[4], -1) {
			if !slices.Contains(e.labels, pair[1]) && !slices.Contains(ofScrapes, pair[1]) {
				faults = append(faults, fmt.Sprintf("%s has no label %s", m[2], pair[1]))
			}
			for value := range strings.SplitSeq(pair[3], "|") {
				if !strings.HasPrefix(value, "$") && !regexp.MustCompile(`\b`+value+`\b`).MatchString(e.help) {
					faults = append(faults, fmt.Sprintf("%s says nothing of %s %q", m[2], pair[1], value))
				}
			}
		}
	}
	for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(m[1], ",") {
			if label = strings.TrimSpace(label); label != "" && !slices.Contains(labels, label) &&
				!slices.Contains(ofScrapes, label) {
				faults = append(faults, "nothing has the label "+label)
			}
		}
	}
	return faults
}

// rule is an alert or a recording of a rule file, as far as tests look at it.
type rule struct{ name, expr, text string }

var (
	ruleBegins = regexp.MustCompile(`(?m)^      - (?:alert|record): (\S+)$`)
	ruleExpr   = regexp.MustCompile(`(?s)expr: (.*?)\n        (?:for|labels):|expr: (.*)`)
)

func rulesOf(t *testing.T, file string) []rule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../deploy/prometheus", file))
	if err != nil {
		t.Fatal(err)
	}
	var rules []rule
	at := ruleBegins.FindAllStringSubmatchIndex(string(text), -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		body := string(text[m[1]:end])
		expr := ruleExpr.FindStringSubmatch(body)
		rules = append(rules, rule{string(text[m[2]:m[3]]), expr[1] + expr[2], body})
	}
	return rules
}

func recorded(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, r := range rulesOf(t, "recording.yaml") {
		names = append(names, r.name)
	}
	return names
}

// TestRulesUseMetricsThatThereAre: what a rule names is exported, with those labels and values; each alert says what to
// run next and has its section in docs/alerts.md, and a test of when it fires. make test-rules runs these.
func TestRulesUseMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	metrics, names := everyMetric(t), recorded(t)
	book, err := os.ReadFile("../../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("../../../deploy/prometheus/tests/alerts.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := rulesOf(t, "alerts.yaml")
	if len(alerts) < 15 || len(names) < 5 {
		t.Fatalf("%d alerts and %d recordings were read", len(alerts), len(names))
	}
	for _, r := range slices.Concat(alerts, rulesOf(t, "recording.yaml")) {
		for _, fault := range faultsOf(r.expr, metrics, names) {
			t.Errorf("%s: %s", r.name, fault)
		}
	}
	for _, r := range alerts {
		text := strings.Join(strings.Fields(r.text), " ") + " "
		section := "docs/alerts.md#" + strings.ToLower(r.name) + " "
		for _, want := range []string{"severity:", "summary:", " millrace ", section} {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %q", r.name, want)
			}
		}
		if !strings.Contains(string(book), "\n## "+r.name+"\n") {
			t.Errorf("docs/alerts.md has no section %s", r.name)
		}
		if !regexp.MustCompile(`alertname="` + r.name + `"[^\n]*\n[^\n]*\n\s+exp_samples:\n`).Match(tests) {
			t.Errorf("no test says when %s fires", r.name)
		}
	}
}

// What the check above finds.
func TestFaultsOfExpressions(t *testing.T) {
	t.Parallel()
	metrics := everyMetric(t)
	for _, tt := range []struct{ expr, want string }{
		{`sum by (run) (rate(millrace_step_duration_seconds_count{run="$run"}[5m]))`, ""},
		{`run:millrace_tokens:rate5m > 0`, ""},
		{`millrace_step_duration_seconds`, "no metric millrace_step_duration_seconds"},
		{`millrace_run_state{status="running"}`, "millrace_run_state has no label status"},
		{`millrace_run_state{state="going"}`, `millrace_run_state says nothing of state "going"`},
		{`sum by (engine) (millrace_buffer_bytes)`, "nothing has the label engine"},
		{`run:millrace_nothing:rate5m`, "nothing records run:millrace_nothing:rate5m"},
	} {
		got := strings.Join(faultsOf(tt.expr, metrics, []string{"run:millrace_tokens:rate5m"}), "; ")
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.expr, got, tt.want)
		}
	}
	if len(slices.Collect(maps.Keys(metrics))) < 50 {
		t.Errorf("only %d metrics are known", len(metrics))
	}
}

// TestDashboardShowsEveryMetric: Grafana's dashboard names metrics that there are, with labels that they have, and
// every metric is in one of its panels.
func TestDashboardShowsEveryMetric(t *testing.T) {
	t.Parallel()
	metrics, shown := everyMetric(t), ""
	for title, queries := range readDashboard(t).queries() {
		for _, expr := range queries {
			shown += expr + "\n"
			if strings.HasPrefix(title, "variable ") {
				expr = strings.TrimSuffix(strings.TrimPrefix(expr, "label_values("), ")")
				name, label, _ := strings.Cut(expr, ", ")
				if !slices.Contains(metrics[name].labels, label) {
					t.Errorf("%s: %s has no label %s", title, name, label)
				}
				continue
			}
			for _, fault := range faultsOf(expr, metrics, nil) {
				t.Errorf("%s: %s", title, fault)
			}
		}
	}
	for name, m := range metrics {
		in := func(series string) bool { return regexp.MustCompile(`\b` + series + `\b`).MatchString(shown) }
		if !slices.ContainsFunc(m.series, in) {
			t.Errorf("%s is in no panel", name)
		}
	}
}
