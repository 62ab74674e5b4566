package crashtest

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

func TestOpponentsOfALeague(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		opponent map[string]string // models, by game
		says     string
	}{
		{"one older version", map[string]string{"a/1/0": "a-v2", "a/1/1": "a-v2", "a/2/0": "model"}, ""},
		{"the bot", nil, ""},
		{"two of a group", map[string]string{"a/1/0": "a-v2", "a/1/1": "a-v1"}, "draws one opponent"},
		{"the learner itself", map[string]string{"a/2/0": "a-v3"}, "was not older"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := outcome{plan: plan{cfg: RunConfig{Shape: League}}, batches: map[rollout.Step]*seenBatch{0: {
				trajectories: []string{"a/1/0/X", "a/1/1/X", "a/2/0/X"}}}}
			o.generated = func(trajectory string) []generation {
				game, agent := trajectory[:len(trajectory)-2], trajectory[len(trajectory)-1:]
				if agent == "X" {
					return []generation{{model: "a-v3"}}
				}
				if model := tt.opponent[game]; model != "" {
					return []generation{{model: model}}
				}
				return nil
			}
			var f findings
			f.opponents(o)
			if got := strings.Join(f.violations, "\n"); (tt.says == "") != (got == "") || !strings.Contains(got, tt.says) {
				t.Errorf("got %q, want %q", got, tt.says)
			}
		})
	}
}
