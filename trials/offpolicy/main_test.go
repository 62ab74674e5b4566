package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTableAndFigureOfFewSteps(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	path := filepath.Join(t.TempDir(), "figure.svg")
	if err := run(t.Context(), []string{"-seeds", "2", "-steps", "8", "-figure", path}, &out); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"\n1 ", "\n2 ", "\n4 ", "\n4, no importance weights "} {
		if !strings.Contains(out.String(), row) {
			t.Errorf("no row %q in\n%s", row, out.String())
		}
	}
	if svg, err := os.ReadFile(path); err != nil || !strings.Contains(string(svg), "depth 4") {
		t.Errorf("the figure: %v, %d bytes", err, len(svg))
	}
}
