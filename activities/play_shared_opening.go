package activities

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"

	"github.com/millrace/millrace/internal/rollout"
)

// WarmUpGroup lets the model of the group's games play how they begin, and registers where that came to as their
// scenario, once. A retry goes on with the last finished phase, which the heartbeats carry.
func (a *Activities) WarmUpGroup(ctx context.Context, plan GroupPlan) error {
	at := a.attempt(ctx, plan, 0)
	at.warmUp = true
	from, err := warmUpHeartbeat(ctx)
	if err != nil {
		return at.failed(ctx, err)
	}
	if from != nil {
		at.progress.tell(*from) // before any heartbeat that tells nothing
	}
	at.progress.news = make(chan struct{}, 1)
	_, played, err := runWithHeartbeat(ctx, at, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, at.playWarmUp(ctx, from)
	})
	if err != nil {
		played.tellLast(ctx)
		return played.failed(ctx, err)
	}
	return nil
}

// tellLast leaves the next attempt as much as there is.
func (at *attempt) tellLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, keepPatience)
	defer cancel()
	_ = at.Heartbeats.RecordActivityHeartbeat(ctx, activity.GetInfo(ctx).TaskToken, at.progress.details()...)
}

func (at *attempt) playWarmUp(ctx context.Context, from *rollout.Checkpoint) error {
	if _, err := at.begin(ctx); err != nil {
		return err
	}
	env, err := at.environment()
	if err != nil {
		return err
	}
	player := at.player(env)
	scenario, err := at.register(ctx, player)
	if err != nil || len(scenario) > 0 {
		return err
	}
	at.usageCounter.start(at.Policy, nil)
	player.Journal = warmUpJournal{&at.progress}
	player.Beat = func(int, string) {} // the journal tells more
	scenario, err = player.WarmUp(ctx, at.asPlan(), warmer(env), from)
	if err != nil {
		return err
	}
	if _, err := at.Buffer.Queue(ctx, at.plan.Ref, scenario, at.plan.Version, at.plan.LaunchedAt); err != nil {
		return fmt.Errorf("register scenario of %s: %w", at.plan.Ref, err)
	}
	return nil
}

// warmUpHeartbeat is the last heartbeat of an earlier attempt at a warm-up; nil if there is none. Games of a warm-up
// are short and their checkpoints small, so heartbeats carry them, and the buffer need not.
func warmUpHeartbeat(ctx context.Context) (*rollout.Checkpoint, error) {
	if !activity.HasHeartbeatDetails(ctx) {
		return nil, nil
	}
	var last rollout.Checkpoint
	if err := activity.GetHeartbeatDetails(ctx, &last); err != nil {
		return nil, rollout.Fail(rollout.Permanent, rollout.CodeHeartbeat, fmt.Errorf("read where the warm-up stopped: %w",
			err))
	}
	return &last, nil
}

type warmUpJournal struct{ progress *progress }

func (j warmUpJournal) Save(_ context.Context, c rollout.Checkpoint) error {
	j.progress.tell(c)
	return nil
}
