package activities

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
)

// GroupPlan is everything that a group's activities need to know of its run: the spec as it was when the
// group was launched. A later change of the run does not touch it.
type GroupPlan struct {
	Ref  rollout.GroupRef `json:"ref"`
	Seed int64            `json:"seed"`
	rollout.GroupSpec
	Environment rollout.Environment   `json:"environment"`
	Model       string                `json:"model"` // as engines serve this version
	Version     rollout.PolicyVersion `json:"policy_version"`
	Refresh     rollout.PolicyRefresh `json:"policy_refresh,omitempty"`
	Fixed       map[string]string     `json:"fixed,omitempty"` // models of the fixed policies, by name
	Sampling    rollout.Sampling      `json:"sampling"`
	Timeouts    rollout.Timeouts      `json:"timeouts"`
	LaunchedAt  time.Time             `json:"launched_at"`
}

// EpisodeInput asks for one game of a group.
type EpisodeInput struct {
	Plan   GroupPlan `json:"plan"`
	Sample int       `json:"sample"`
}

// EpisodeResult says how a game went; its trajectories are in the buffer.
type EpisodeResult struct {
	Phases int `json:"phases"`
}

// PlayEpisode plays one game to its end. It sends a heartbeat after each phase and while it waits for engines, and
// saves the game after each phase; a retry, in whichever process, goes on with the last finished phase.
func (a *Activities) PlayEpisode(ctx context.Context, in EpisodeInput) (EpisodeResult, error) {
	ref := rollout.EpisodeRef{GroupRef: in.Plan.Ref, Sample: in.Sample}
	attempt := int(activity.GetInfo(ctx).Attempt)
	ep, err := a.play(ctx, in.Plan, ref, attempt)
	if err != nil && ctx.Err() != nil {
		return EpisodeResult{}, abandoned(ctx)
	}
	if err != nil {
		a.emit(in.Plan.Ref.Run, fmt.Sprintf("%s/failed/%d", ref, attempt), telemetry.EpisodeFailed{
			Ref: ref, Code: failureCode(err), Failure: err.Error(), Attempt: attempt, Final: final(err),
		})
		return EpisodeResult{}, typed(err)
	}
	return EpisodeResult{Phases: ep.Phases}, nil
}

// abandoned tells a game that was called off from one whose worker is being stopped: the latter goes on elsewhere at
// once, without waiting for its heartbeats to be missed.
func abandoned(ctx context.Context) error {
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return typed(rollout.Fail(rollout.Retryable, "worker_stopped", ctx.Err()))
	default:
		return ctx.Err()
	}
}

func (a *Activities) play(ctx context.Context, plan GroupPlan, ref rollout.EpisodeRef, attempt int) (rollout.Episode, error) {
	env, err := a.Environments(plan.Environment)
	if err != nil {
		return rollout.Episode{}, rollout.Fail(rollout.Permanent, "environment", err)
	}
	scenario, err := a.scenario(ctx, plan, env)
	if err != nil {
		return rollout.Episode{}, err
	}
	from, err := a.progress(ctx, ref)
	if err != nil {
		return rollout.Episode{}, err
	}
	turns, err := a.remember(ctx, ref, attempt, from)
	if err != nil {
		return rollout.Episode{}, err
	}
	heart := startHeart(ctx, plan.Timeouts.Heartbeat.Std()/3)
	defer heart.stop()

	player := episode.Player{
		Environment: env,
		Policy:      turns,
		Journal:     journal{a.Buffer, ref, attempt, turns},
		Beat:        heart.beat,
		Now:         a.Now,
		Newest:      a.newest(plan),
	}
	ep, game, err := player.Play(ctx, episode.Plan{
		Ref: ref, Attempt: attempt, Model: plan.Model, Version: plan.Version,
		Fixed: plan.Fixed, Sampling: plan.Sampling, Timeouts: plan.Timeouts, Seed: plan.Seed,
	}, scenario, from)
	if err != nil {
		return ep, err
	}
	ep.Usage.RepeatedTokens += turns.repeated.Load()
	if err := a.Buffer.SaveEpisode(ctx, ref, attempt, ep, game); err != nil {
		return ep, fmt.Errorf("save episode %s: %w", ref, err)
	}
	a.emit(plan.Ref.Run, ref.String()+"/finished", telemetry.EpisodeFinished{
		Ref: ref, WallSec: ep.FinishedAt.Sub(ep.StartedAt).Seconds(), ModelSec: ep.ModelSec, EnvSec: ep.EnvSec,
		QueueSec: ep.QueueSec, Phases: ep.Phases, Attempts: ep.Attempts, Usage: ep.Usage, Counts: ep.Counts,
	})
	return ep, nil
}

// newest finds the version that plays a phase; nil where games keep the version that their group was launched with.
func (a *Activities) newest(plan GroupPlan) func(context.Context) (episode.Served, error) {
	if plan.Refresh != rollout.RefreshTurn {
		return nil
	}
	return func(ctx context.Context) (episode.Served, error) {
		v, err := a.Fleet.Newest(ctx, plan.Ref.Run)
		if err != nil || v <= plan.Version {
			return episode.Served{Model: plan.Model, Version: plan.Version}, err
		}
		return episode.Served{Model: v.Adapter(plan.Ref.Run), Version: v}, nil
	}
}

func (a *Activities) progress(ctx context.Context, ref rollout.EpisodeRef) (*episode.Progress, error) {
	cp, found, err := a.Buffer.LoadCheckpoint(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("load checkpoint of %s: %w", ref, err)
	}
	if !found {
		return nil, nil
	}
	return &episode.Progress{PhaseIndex: cp.PhaseIndex, Game: cp.Game, Episode: cp.Episode}, nil
}

func (a *Activities) emit(run rollout.RunName, key string, body telemetry.Body) {
	a.Emit.Emit(telemetry.Event{At: a.Now(), Run: run, Key: key, Body: body})
}

func failureCode(err error) string { return Code(typed(err)) }

// journal saves one attempt's progress; the buffer fences off an attempt that was taken for dead.
type journal struct {
	buffer  Buffer
	ref     rollout.EpisodeRef
	attempt int
	turns   *memory
}

// Save saves the progress with the tokens that this attempt has repeated; those of earlier ones came with the checkpoint.
func (j journal) Save(ctx context.Context, p episode.Progress) error {
	p.Episode.Usage.RepeatedTokens += j.turns.repeated.Load()
	return j.buffer.SaveCheckpoint(ctx, j.ref, j.attempt, buffer.Checkpoint{
		PhaseIndex: p.PhaseIndex, Game: p.Game, Episode: p.Episode,
	})
}

// heart reports life to Temporal: at each phase, and by itself, with the details of the last phase, while the game
// waits for its turn.
type heart struct {
	ctx  context.Context
	last atomic.Pointer[[]any]
	done chan struct{}
	gone chan struct{}
}

func startHeart(ctx context.Context, every time.Duration) *heart {
	h := &heart{ctx: ctx, done: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer close(h.gone)
		ticker := time.NewTicker(max(every, time.Second))
		defer ticker.Stop()
		for {
			select {
			case <-h.done:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
				h.again()
			}
		}
	}()
	return h
}

func (h *heart) beat(phaseIndex int, phase string) { h.tell(phaseIndex, phase) }

// tell reports details, which stay what is known of the activity until others are told.
func (h *heart) tell(details ...any) {
	h.last.Store(&details)
	activity.RecordHeartbeat(h.ctx, details...)
}

func (h *heart) again() {
	if last := h.last.Load(); last != nil {
		activity.RecordHeartbeat(h.ctx, *last...)
		return
	}
	activity.RecordHeartbeat(h.ctx)
}

func (h *heart) stop() {
	close(h.done)
	<-h.gone
}
