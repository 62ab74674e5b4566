package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/game/episode"
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
	at.begins = false
	prepared, _, err := runWithHeartbeat(ctx, at, func(ctx context.Context) (Prepared, error) {
		env, err := at.environment()
		if err != nil {
			return Prepared{}, err
		}
		_, err = at.register(ctx, at.player(env))
		return Prepared{WarmUp: warmer(env) != nil}, err
	})
	if code := failureCode(err); rollout.KindOf(err) != rollout.Retryable || code == rollout.CodeEnvironmentHung {
		at.report(code, err, final(err)) // no game of the group has been tried, which would tell
	}
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

// scenario is the starting position of the group's games.
func (at *attempt) scenario(ctx context.Context, player *episode.Player) ([]byte, error) {
	scenario, err := at.register(ctx, player)
	if err == nil && len(scenario) == 0 {
		return nil, rollout.Fail(rollout.GameFault, rollout.CodeScenario, fmt.Errorf("group %s: %w", at.plan.Ref,
			errNoScenario))
	}
	return scenario, err
}
