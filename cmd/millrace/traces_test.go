package main

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/observe/otel/oteltest"
)

// TestATraceIsARun: with the standard variable set, a run that the real processes play arrives at a collector as one
// trace, run, step, group, game, turn, engine call, and their metrics do so, too.
func TestATraceIsARun(t *testing.T) {
	requireTemporal(t)
	collector := &oteltest.Collector{}
	server := httptest.NewServer(collector)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "1")
	p := millrace(t, "dev", "--listen", "127.0.0.1:0", "--spec", writeSpec(t, quickSpec), "--exit")
	if code := p.exit(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	want := []string{"text_completion", "turn", "game", "group", "step", "run"}
	whole, seen := 0, map[string]int{}
	var odd []string
	for _, s := range collector.Spans() {
		path := collector.Path(s)
		for i := range path {
			path[i], _, _ = strings.Cut(path[i], " ")
		}
		seen[path[0]]++
		switch {
		case slices.Equal(path, want):
			whole++
		case path[len(path)-1] == "?" && len(odd) < 5: // of groups that no step has taken
			odd = append(odd, strings.Join(path, " < "))
		}
		if path[0] == "text_completion" && (s.Attributes["gen_ai.provider.name"] != "vllm" ||
			s.Attributes["gen_ai.usage.output_tokens"] == "" || !strings.Contains(s.Schema, "1.41.0")) {
			t.Errorf("an engine call without its attributes: %+v", s)
		}
		if s.EndNano < s.StartNano {
			t.Errorf("%s ends before it begins", s.Name)
		}
	}
	if seen["run"] != 1 || seen["step"] == 0 || whole < seen["text_completion"]/3 {
		t.Errorf("%d calls of engines lead up to the run, of %v; such as %q do not", whole, seen, odd)
	}
	for service, name := range map[string]string{
		"millrace-server": "millrace_step_duration_seconds", "millrace-worker": "millrace_worker_slots",
	} {
		if !collector.HasMetric(service, name) {
			t.Errorf("%s has not exported %s", service, name)
		}
	}
}
