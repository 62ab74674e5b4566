package diagnosis_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/diagnosis"
)

var update = flag.Bool("update", false, "rewrite the reports in testdata")

// What a person reads is kept in testdata, one report a file: go test -run Text -update rewrites them.
func TestWriteText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		run  simRun
	}{
		{"capacity_bound", seedCase()},
		{"latency_bound", latencyCase()},
		{"throttled", with(latencyCase(), func(m *simRun) { m.depth, m.steps, m.bounded, m.stale = 4, 24, true, 1 })},
		{"healthy", with(seedCase(), func(m *simRun) { m.engines = 16 })},
		{"warning", with(seedCase(), func(m *simRun) { m.steps = 3 })},
		{"one_starved_step", with(seedCase(), func(m *simRun) { m.steps = 4 })},
		{"cold_engines", with(seedCase(), func(m *simRun) { m.engines, m.prefill, m.cold = 12, 1, coldAfter(2, 1500) })},
		{"engine_lost", with(seedCase(), func(m *simRun) { m.engines, m.steps, m.lost = 9, 24, lostAfter(4, 1800) })},
		{"trainer_slower", with(seedCase(), func(m *simRun) { m.engines, m.slowdown = 16, from(6, 1.5) })},
		{"no_step", simRun{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := text(t, diagnosis.Diagnose(tt.run.input()))
			path := filepath.Join("testdata", tt.name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			lines := strings.Split(got, "\n")
			if len(lines) > 40 {
				t.Errorf("%d lines are more than a screen", len(lines))
			}
			deed := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "DO ") })
			if deed >= 8 {
				t.Errorf("what to do stands on line %d:\n%s", deed+1, got)
			}
			for _, line := range lines {
				if n := utf8.RuneCountInString(line); n > 100 {
					t.Errorf("%d characters are too wide: %s", n, line)
				}
			}
		})
	}
}
