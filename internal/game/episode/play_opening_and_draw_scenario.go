package episode

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
)

// WarmUp lets the policy play how a group's games begin, from the start or from where an earlier attempt stopped when
// from is not nil, and returns the scenario in which they fork. Its turns are nobody's trajectory: what is saved of
// them is the game alone. The plan is that of the group's first game.
func (p *Player) WarmUp(ctx context.Context, plan Plan, warmer Warmer, from *rollout.Checkpoint) ([]byte, error) {
	plan.warmUp = true
	env := p.stage(plan)
	game, progress, err := openWarmUp(plan, env, warmer, from)
	if err != nil {
		return nil, fmt.Errorf("warm-up of group %s: %w", plan.Ref.GroupRef, err)
	}
	if err := p.phases(ctx, plan, env, game, &progress); err != nil {
		return nil, fmt.Errorf("warm-up: %w", err)
	}
	saved, err := checkpoint(env, game)
	var scenario []byte
	if err == nil {
		err = env.call("fork", func() (err error) { scenario, err = warmer.Fork(saved); return err })
	}
	if err != nil {
		return nil, fmt.Errorf("warm-up of group %s: %w", plan.Ref.GroupRef, err)
	}
	return scenario, nil
}

func openWarmUp(plan Plan, env *stage, warmer Warmer, from *rollout.Checkpoint) (game Game,
	progress rollout.Checkpoint, err error) {
	err = env.call("warm_up", func() (err error) {
		if from == nil {
			game, err = warmer.WarmUp(plan.Seed)
			return err
		}
		game, err = warmer.Resume(from.Game)
		progress = rollout.Checkpoint{PhaseIndex: from.PhaseIndex, Game: from.Game}
		return err
	})
	return game, progress, err
}

// Scenario draws the start of a group's games. The plan is that of its first game.
func (p *Player) Scenario(plan Plan) (scenario []byte, err error) {
	env := p.stage(plan)
	err = env.call("scenario", func() (err error) {
		if ordered, ok := p.Environment.(Ordered); ok {
			scenario, err = ordered.ScenarioOf(plan.Ref.Seq)
			return err
		}
		scenario, err = p.Environment.Scenario(plan.Seed)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", plan.Ref.GroupRef, err)
	}
	return scenario, nil
}
