package fleet

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/vllm"
)

func TestLoadBetween(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	before := vllm.Sample{PromptTokens: 1000, GenerationTokens: 100, PrefixQueries: 1000, PrefixHits: 500}
	for _, tt := range []struct {
		name         string
		after        vllm.Sample
		window       time.Duration
		in, out, hit float64
	}{
		{"two seconds", vllm.Sample{PromptTokens: 3000, GenerationTokens: 300, PrefixQueries: 3000, PrefixHits: 2000},
			2 * time.Second, 1000, 100, 0.75},
		{"nothing happened", before, time.Second, 0, 0, 0},
		{"restarted", vllm.Sample{PromptTokens: 50, GenerationTokens: 10, PrefixQueries: 50}, time.Second, 50, 10, 0},
		{"counters that no engine has", vllm.Sample{PromptTokens: 1e15, GenerationTokens: 1e15}, time.Second, 0, 0, 0},
		{"no window", vllm.Sample{PromptTokens: 3000}, 0, 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := loadBetween(before, tt.after, start, start.Add(tt.window))
			if got.InputTPS != tt.in || got.OutputTPS != tt.out || got.PrefixHitShare != tt.hit ||
				got.WindowSec != tt.window.Seconds() {
				t.Errorf("got %+v", got)
			}
		})
	}
}
