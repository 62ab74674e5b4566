package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"

	"github.com/millrace/millrace/internal/episode"
	"github.com/millrace/millrace/internal/rollout"
)

// Prepared says what a group still needs before its games can be played.
type Prepared struct {
	WarmUp bool `json:"warm_up,omitempty"` // its scenario is to be played: WarmUpGroup
}

// PrepareGroup registers the group in the buffer as queued, with its scenario if that is drawn and not played.
func (a *Activities) PrepareGroup(ctx context.Context, plan GroupPlan) (Prepared, error) {
	env, err := a.Environments(plan.Environment)
	if err != nil {
		return Prepared{}, typed(rollout.Fail(rollout.Permanent, "environment", err))
	}
	if _, err := a.register(ctx, plan, env); err != nil {
		return Prepared{}, typed(err)
	}
	return Prepared{WarmUp: warmer(env) != nil}, nil
}

// warmer is env if its scenarios are played by a policy, else nil.
func warmer(env episode.Environment) episode.Warmer {
	if w, ok := env.(episode.Warmer); ok && w.Warms() {
		return w
	}
	return nil
}

// register makes the group known to the buffer and returns its scenario: the one registered first wins, so that a retry
// on another version of the code cannot fork the group into different games. It is empty before a warm-up has ended.
func (a *Activities) register(ctx context.Context, plan GroupPlan, env episode.Environment) ([]byte, error) {
	var drawn []byte
	if warmer(env) == nil {
		var err error
		if drawn, err = env.Scenario(plan.Seed); err != nil {
			return nil, rollout.Fail(rollout.GameFault, "scenario", err)
		}
	}
	scenario, err := a.Buffer.Queue(ctx, plan.Ref, drawn, plan.Version, plan.LaunchedAt)
	if err != nil {
		return nil, fmt.Errorf("queue group %s: %w", plan.Ref, err)
	}
	return scenario, nil
}

var errNoScenario = errors.New("its warm-up has not been played")

// scenario is what the group's games begin from.
func (a *Activities) scenario(ctx context.Context, plan GroupPlan, env episode.Environment) ([]byte, error) {
	scenario, err := a.register(ctx, plan, env)
	if err == nil && len(scenario) == 0 {
		return nil, rollout.Fail(rollout.GameFault, "scenario", fmt.Errorf("group %s: %w", plan.Ref, errNoScenario))
	}
	return scenario, err
}

// WarmUpGroup lets the model of the group's games play how they begin, and registers where that came to as their
// scenario, once. A retry goes on with the last finished phase, which the heartbeats carry.
func (a *Activities) WarmUpGroup(ctx context.Context, plan GroupPlan) error {
	err := a.warmUp(ctx, plan)
	if err != nil && ctx.Err() != nil {
		return abandoned(ctx)
	}
	return typed(err)
}

func (a *Activities) warmUp(ctx context.Context, plan GroupPlan) error {
	env, err := a.Environments(plan.Environment)
	if err != nil {
		return rollout.Fail(rollout.Permanent, "environment", err)
	}
	scenario, err := a.register(ctx, plan, env)
	if err != nil || len(scenario) > 0 {
		return err
	}
	from, err := lastTold(ctx)
	if err != nil {
		return err
	}
	heart := startHeart(ctx, plan.Timeouts.Heartbeat.Std()/3)
	defer heart.stop()
	if from != nil {
		heart.tell(*from)
	}
	player := episode.Player{
		Environment: env, Policy: a.Policy, Journal: warmUpJournal{heart}, Beat: func(int, string) {}, Now: a.Now,
	}
	scenario, err = player.WarmUp(ctx, episode.Plan{
		Ref: rollout.EpisodeRef{GroupRef: plan.Ref}, Attempt: int(activity.GetInfo(ctx).Attempt),
		Model: plan.Model, Version: plan.Version, Fixed: plan.Fixed, Sampling: plan.Sampling, Timeouts: plan.Timeouts, Seed: plan.Seed,
	}, warmer(env), from.progress())
	if err != nil {
		return err
	}
	if _, err := a.Buffer.Queue(ctx, plan.Ref, scenario, plan.Version, plan.LaunchedAt); err != nil {
		return fmt.Errorf("register scenario of %s: %w", plan.Ref, err)
	}
	return nil
}

// told is what the heartbeats of a warm-up carry: the game after its last finished phase. Games of a warm-up are short
// and their checkpoints small, so that they need no place of their own in the buffer.
type told struct {
	PhaseIndex int    `json:"phase_index"`
	Game       []byte `json:"game"`
}

// lastTold is what an earlier attempt told last; nil if nothing.
func lastTold(ctx context.Context) (*told, error) {
	if !activity.HasHeartbeatDetails(ctx) {
		return nil, nil
	}
	var last told
	if err := activity.GetHeartbeatDetails(ctx, &last); err != nil {
		return nil, rollout.Fail(rollout.Permanent, "heartbeat", fmt.Errorf("read where the warm-up stopped: %w", err))
	}
	return &last, nil
}

func (t *told) progress() *episode.Progress {
	if t == nil {
		return nil
	}
	return &episode.Progress{PhaseIndex: t.PhaseIndex, Game: t.Game}
}

type warmUpJournal struct{ heart *heart }

func (j warmUpJournal) Save(_ context.Context, p episode.Progress) error {
	j.heart.tell(told{PhaseIndex: p.PhaseIndex, Game: p.Game})
	return nil
}
