package buffer

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/rollout"
)

// check reports why g must not be trained on.
func check(g *rollout.Group) error {
	if len(g.Trajectories) == 0 {
		return rollout.Refuse(rollout.Invalid, "group %s has no trajectories", g.Ref)
	}
	seen := make(map[string]bool, len(g.Trajectories))
	for i := range g.Trajectories {
		t := &g.Trajectories[i]
		if err := t.Validate(); err != nil {
			return rollout.Refuse(rollout.Invalid, "group %s: %v", g.Ref, err)
		}
		if seen[t.ID] {
			return rollout.Refuse(rollout.Invalid, "group %s: trajectory %s occurs twice", g.Ref, t.ID)
		}
		seen[t.ID] = true
		if err := checkNumbers(g, t); err != nil {
			return rollout.Refuse(rollout.Invalid, "group %s: trajectory %s: %v", g.Ref, t.ID, err)
		}
	}
	return nil
}

// checkNumbers reports a number that no trainer could use, and a turn older than its group claims to be, which
// would be trained on too late.
func checkNumbers(g *rollout.Group, t *rollout.Trajectory) error {
	if !finite(t.Reward) || !finite(t.Advantage) {
		return fmt.Errorf("reward %v, advantage %v", t.Reward, t.Advantage)
	}
	for i := range t.Turns {
		turn := &t.Turns[i]
		if turn.PolicyVersion < g.MinVersion || turn.PolicyVersion > g.MaxVersion {
			return fmt.Errorf("turn %d: policy version %d, but the group says %d to %d", i, turn.PolicyVersion,
				g.MinVersion, g.MaxVersion)
		}
		if !finite(turn.Reward) {
			return fmt.Errorf("turn %d: reward %v", i, turn.Reward)
		}
		for j, p := range turn.Logprobs {
			if !finite(float64(p)) {
				return fmt.Errorf("turn %d: log-probability %d is %v", i, j, p)
			}
		}
	}
	return nil
}

// finite reports whether a number and its square are: means and spreads are made of both, and JSON has neither NaN nor
// infinity.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v*v, 0) }
