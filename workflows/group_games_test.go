package workflows

import (
	"testing"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

func TestWhenGamesAreEnough(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		running          int
		finished         int
		late             bool
		enough, hopeless bool
	}{
		{"at the beginning", 6, 0, false, false, false},
		{"the minimum, in its grace", 4, 2, false, false, false},
		{"the minimum, its grace over", 4, 2, true, true, false},
		{"less than the minimum, late", 5, 1, true, false, false},
		{"all that are wanted, with surplus running", 2, 4, false, true, false},
		{"two failed, the rest running", 4, 0, false, false, false},
		{"the minimum, and all others failed", 0, 2, false, true, false},
		{"too few can still finish", 1, 0, false, false, true},
	} {
		g := games{running: tt.running, finished: make([]int, tt.finished), late: tt.late}
		var plan GroupInput
		plan.Plan.GroupSpec = runspec.GroupSpec{Samples: 4, MinSamples: 2, Oversample: 2}
		if g.enough(plan.Plan) != tt.enough || g.hopeless(plan.Plan) != tt.hopeless {
			t.Errorf("%s: enough %v, hopeless %v", tt.name, g.enough(plan.Plan), g.hopeless(plan.Plan))
		}
	}
}
