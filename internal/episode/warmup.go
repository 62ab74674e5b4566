package episode

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
)

// WarmUp lets the policy play how a group's games begin, from the start or from where an earlier attempt stopped when
// from is not nil, and returns the scenario in which they fork. Its turns are nobody's trajectory: what is saved of
// them is the game alone. The plan is that of the group's first game.
func (p *Player) WarmUp(ctx context.Context, plan Plan, warmer Warmer, from *Progress) ([]byte, error) {
	plan.prelude = "warm-up-"
	game, progress, err := openWarmUp(plan, warmer, from)
	if err != nil {
		return nil, rollout.Fail(rollout.GameFault, "warm_up", fmt.Errorf("group %s: %w", plan.Ref.GroupRef, err))
	}
	if err := p.phases(ctx, plan, game, &progress); err != nil {
		return nil, fmt.Errorf("warm-up: %w", err)
	}
	checkpoint, err := game.Checkpoint()
	if err != nil {
		return nil, rollout.Fail(rollout.GameFault, "checkpoint", err)
	}
	scenario, err := warmer.Fork(checkpoint)
	if err != nil {
		return nil, rollout.Fail(rollout.GameFault, "fork", fmt.Errorf("group %s: %w", plan.Ref.GroupRef, err))
	}
	return scenario, nil
}

func openWarmUp(plan Plan, warmer Warmer, from *Progress) (Game, Progress, error) {
	if from == nil {
		game, err := warmer.WarmUp(plan.Seed)
		return game, Progress{}, err
	}
	game, err := warmer.Resume(from.Game)
	return game, Progress{PhaseIndex: from.PhaseIndex, Game: from.Game}, err
}
