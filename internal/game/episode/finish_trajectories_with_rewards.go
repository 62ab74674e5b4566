package episode

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
)

// finish gives every learner its reward. A learner that never had to act still has a trajectory,
// without turns, so that a group always compares the same agents.
func finish(plan Plan, env *stage, game Game, ep rollout.Episode) (rollout.Episode, error) {
	var result Result
	if err := env.call("result", func() (err error) { result, err = game.Result(); return err }); err != nil {
		return ep, fmt.Errorf("episode %s: %w", plan.Ref, err)
	}
	for agent := range result.Rewards {
		trajectory(&ep, plan, agent)
	}
	slices.SortFunc(ep.Trajectories, func(a, b rollout.Trajectory) int { return strings.Compare(a.Agent, b.Agent) })
	for i := range ep.Trajectories {
		t := &ep.Trajectories[i]
		reward, ok := result.Rewards[t.Agent]
		if !ok {
			return ep, rollout.Fail(rollout.GameFault, rollout.CodeResult,
				fmt.Errorf("episode %s: no reward for %s, which took part",
					plan.Ref, t.Agent))
		}
		t.Reward = reward
		t.Truncated = result.Truncated
		if err := t.Validate(); err != nil {
			return ep, rollout.Fail(rollout.Retryable, rollout.CodeBadTurn, err)
		}
	}
	if seated, ok := game.(Seated); ok {
		var seats []rollout.Seat
		if err := env.call("seats", func() error { seats = seated.Seats(); return nil }); err != nil {
			return ep, fmt.Errorf("episode %s: %w", plan.Ref, err)
		}
		for i := range seats {
			s := &seats[i]
			s.Player = cmp.Or(s.Player, plan.Player)
			if name, fixed := strings.CutPrefix(s.Player, rollout.PlayedByPolicy); fixed {
				if _, version := rollout.VersionOfPlayer(name); version { // that the league drew
					s.Player = name
				}
			}
		}
		ep.Order = rollout.OrderOf(seats)
	}
	ep.Truncated = result.Truncated
	count(&ep, result.Counts)
	return ep, nil
}
