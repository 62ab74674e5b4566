package diagnosis_test

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

func counted(code rollout.Code, byLength ...int64) steprecord.LengthCount {
	c := steprecord.LengthCount{Code: code, ByLength: byLength}
	for _, n := range byLength {
		c.Groups += n
	}
	return c
}

// What is lost is compared with what is trained on only where both are many, and told only beyond chance.
func TestBiases(t *testing.T) {
	t.Parallel()
	trained := counted(steprecord.Trained, 0, 10, 60, 30) // 1, 2-3, 4-7 phases
	for _, tt := range []struct {
		name string
		lost steprecord.LengthCount
		says string // empty: nothing
	}{
		{"longer", counted("stale", 0, 0, 5, 20),
			"groups dropped as stale have longer games than those trained on, about 4.9 phases against 3.2: " +
				"what is learnt from leans towards short games"},
		{"much alike", counted("stale", 0, 4, 24, 12), ""},
		{"longer, but few", counted("stale", 0, 0, 0, 19), ""},
		{"longer, which may be chance", counted("stale", 0, 6, 6, 5, 3), ""},
		{"never played", counted("shrunk", 500), ""},
		{"never played, or longer", counted("shrunk", 500, 0, 0, 0, 25), "groups dropped as shrunk have longer games"},
		{"shorter, given up on their way", counted("cancelled", 0, 40), ""},
		{"shorter, played to their end", counted("zero_variance", 0, 40),
			"groups dropped as zero_variance have shorter games than those trained on, about 1 phases against 3.2: " +
				"what is learnt from leans towards long games"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := ""
			for _, b := range diagnosis.Biases([]steprecord.LengthCount{trained, tt.lost}) {
				got += b.String()
			}
			if !strings.HasPrefix(got, tt.says) || tt.says == "" && got != "" {
				t.Errorf("%q, want %q", got, tt.says)
			}
		})
	}
	for _, few := range [][]steprecord.LengthCount{nil, {counted("stale", 0, 0, 0, 30)},
		{counted(steprecord.Trained, 0, 19), counted("stale", 0, 0, 0, 30)}} {
		if got := diagnosis.Biases(few); len(got) > 0 {
			t.Errorf("with nothing to compare with: %v", got)
		}
	}
}
