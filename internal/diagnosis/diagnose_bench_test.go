package diagnosis_test

import (
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
)

// A long run of large batches: what is replayed and fitted is bounded, whatever its length.
func BenchmarkDiagnoseLongRun(b *testing.B) {
	run := with(seedCase(), func(m *simRun) {
		m.groups, m.engines, m.group, m.steps, m.noise, m.seed = 64, 16, 75, 500, 0.1, 5
	})
	in := run.input()
	for b.Loop() {
		diagnosis.Diagnose(in)
	}
}
