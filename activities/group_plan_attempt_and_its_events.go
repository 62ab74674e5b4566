package activities

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/buffer"
)

// GroupPlan is everything that a group's activities need to know of its run: the spec as it was when the
// group was launched. A later change of the run does not touch it.
type GroupPlan struct {
	Ref  rollout.GroupRef `json:"ref"`
	Seed int64            `json:"seed"`
	runspec.GroupSpec
	Environment runspec.Environment   `json:"environment"`
	Model       string                `json:"model"` // as engines serve this version
	Version     rollout.PolicyVersion `json:"policy_version"`
	Player      string                `json:"player,omitempty"` // what the version is called as a player
	Refresh     runspec.PolicyRefresh `json:"policy_refresh,omitempty"`
	Fixed       map[string]string     `json:"fixed,omitempty"` // models of the fixed policies on engines, by name
	// Elsewhere is the fixed policies that no engine serves, by name.
	Elsewhere  map[string]runspec.FixedPolicy `json:"elsewhere,omitempty"`
	Opponent   string                         `json:"opponent,omitempty"` // player that the run's league drew
	Sampling   rollout.Sampling               `json:"sampling"`
	Timeouts   runspec.Timeouts               `json:"timeouts"`
	LaunchedAt time.Time                      `json:"launched_at"`
}

// attempt is one attempt at a game, or at the warm-up that a group's games begin with.
type attempt struct {
	*Activities
	plan         GroupPlan
	ref          rollout.EpisodeRef // of a warm-up: of the group's first game
	warmUp       bool
	watch        *episode.Watch
	progress     progress
	usageCounter usageCounter

	begins          bool      // in the buffer, before it plays
	started         time.Time // by Temporal
	temporalAttempt int       // of its activity, as Temporal counts

	number  int // 1 for the first, and growing; once it has begun
	counted int // attempts held against the game, this one included
	excused int // attempts that are not
}

func (a *Activities) attempt(ctx context.Context, plan GroupPlan, sample int) *attempt {
	info := activity.GetInfo(ctx)
	return &attempt{
		Activities: a, plan: plan, ref: rollout.EpisodeRef{GroupRef: plan.Ref, Sample: sample},
		watch: &episode.Watch{}, usageCounter: usageCounter{now: a.Now},
		begins: true, started: info.StartedTime, temporalAttempt: int(info.Attempt), number: 1, counted: 1,
	}
}

// name is how events and logs call what is attempted.
func (at *attempt) name() string {
	if at.warmUp {
		return at.ref.GroupRef.String() + "/warm-up"
	}
	return at.ref.String()
}

// report reports an attempt that ended without a result, and the tokens that its game had used.
func (at *attempt) report(code rollout.Code, err error, final bool) {
	failed := runstatus.FailedAttempt{
		Ref: at.ref, Code: code, Error: err.Error(), Attempt: at.number, Final: final, At: at.Now(), WarmUp: at.warmUp,
		Usage: at.usageCounter.total(),
	}
	if !at.countFailure(failed) {
		at.Emit.Emit(buffer.FailedFact(failed))
	}
}

func (a *Activities) event(run rollout.RunName, key string, body telemetry.Body) telemetry.Event {
	return telemetry.Event{At: a.Now(), Run: run, Key: key, Body: body}
}

// tell keeps a fact that no script of the buffer tells, before the activity ends.
func (a *Activities) tell(ctx context.Context, run rollout.RunName, key string, body telemetry.Body) error {
	if err := a.Tell.Tell(ctx, a.event(run, key, body)); err != nil {
		return typed(fmt.Errorf("tell of %s: %w", key, err))
	}
	return nil
}

func failureCode(err error) rollout.Code { return Code(typed(err)) }
