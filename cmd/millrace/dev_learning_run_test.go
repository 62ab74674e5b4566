package main

import (
	"slices"
	"strings"
	"testing"
)

func TestCurveSaysWhetherItLearns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		rewards []float64
		says    string
	}{
		{"rises", []float64{.61, .60, .62, .70, .75, .80, .82, .85, .88, .90, .91, .89}, "0.900 ± 0.025 (95 %): it learns\n"},
		{"stays", slices.Repeat([]float64{.6, .7, .5}, 4), "it is not shown that it learns"},
		{"short", []float64{.6, .9}, "too few steps"},
		{"none", nil, "too few steps"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			writeCurve(&out, tt.rewards, 64)
			if !strings.Contains(out.String(), tt.says) || strings.Count(out.String(), "#") < 60*len(tt.rewards)/3 {
				t.Errorf("want %q in\n%s", tt.says, out.String())
			}
		})
	}
}
