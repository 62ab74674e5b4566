package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	plan.Timeouts.Phase = rollout.Duration(within(ctx, plan.Timeouts.PhaseLimit().Std()))
	at := a.attempt(ctx, plan, 0)
	prepared, err := runWithHeartbeat(ctx, at, func(ctx context.Context) (Prepared, error) {
		env, err := at.environment()
		if err != nil {
			return Prepared{}, err
		}
		_, err = at.register(ctx, at.player(env))
		return Prepared{WarmUp: warmer(env) != nil}, err
	})
	return prepared, typed(err)
}

// within is how long an environment may take in an activity that must end by a deadline: so that it can still tell
// why it failed, and at most limit. 0 is no limit.
func within(ctx context.Context, limit time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return limit
	}
	most := max(time.Until(deadline)*3/4, time.Millisecond)
	if limit <= 0 {
		return most
	}
	return min(limit, most)
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
func (at *attempt) register(ctx context.Context, player *episode.Player) ([]byte, error) {
	var drawn []byte
	if warmer(player.Environment) == nil {
		var err error
		if drawn, err = player.Scenario(at.asPlan()); err != nil {
			return nil, err
		}
	}
	scenario, err := at.Buffer.Queue(ctx, at.plan.Ref, drawn, at.plan.Version, at.plan.LaunchedAt)
	if err != nil {
		return nil, fmt.Errorf("queue group %s: %w", at.plan.Ref, err)
	}
	return scenario, nil
}

var errNoScenario = errors.New("its warm-up has not been played")

// scenario is what the group's games begin from.
func (at *attempt) scenario(ctx context.Context, player *episode.Player) ([]byte, error) {
	scenario, err := at.register(ctx, player)
	if err == nil && len(scenario) == 0 {
		return nil, rollout.Fail(rollout.GameFault, rollout.CodeScenario, fmt.Errorf("group %s: %w", at.plan.Ref,
			errNoScenario))
	}
	return scenario, err
}

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
		at.heartbeat.tell(*from) // before any heartbeat that tells nothing
	}
	_, err = runWithHeartbeat(ctx, at, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, at.playWarmUp(ctx, from)
	})
	if err != nil {
		return at.failed(ctx, err)
	}
	return nil
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
	player.Journal = warmUpJournal{at.heartbeat}
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

// warmUpHeartbeat is what an earlier attempt at a warm-up told last; nil if nothing. Games of a warm-up are short and
// their checkpoints small, so that heartbeats carry them and they need no place of their own in the buffer.
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

type warmUpJournal struct{ heartbeat *heartbeat }

func (j warmUpJournal) Save(_ context.Context, c rollout.Checkpoint) error {
	j.heartbeat.tell(c)
	return nil
}
