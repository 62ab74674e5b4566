package activities

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/buffer"
)

// EpisodeInput asks for one game of a group.
type EpisodeInput struct {
	Plan   GroupPlan `json:"plan"`
	Sample int       `json:"sample"`
}

// EpisodeResult says how a game went; its trajectories are in the buffer.
type EpisodeResult struct {
	Phases int `json:"phases"`
}

// PlayEpisode plays one game to its end. It sends heartbeats, and saves the game after each phase; a retry, in
// whichever process, goes on with the last finished phase, or with the game itself if it is still played there.
func (a *Activities) PlayEpisode(ctx context.Context, in EpisodeInput) (EpisodeResult, error) {
	at := a.attempt(ctx, in.Plan, in.Sample)
	a.DescribeGame(ctx, at.ref, in.Plan.Version)
	models := slices.AppendSeq([]string{in.Plan.Model}, maps.Values(in.Plan.Fixed))
	defer a.GamesInPlay.begin(in.Plan.Ref.Run, models...)()
	ep, played, err := runWithHeartbeat(ctx, at, at.play)
	if err != nil {
		return EpisodeResult{}, played.failed(ctx, err)
	}
	return EpisodeResult{Phases: ep.Phases}, nil
}

// player is the attempt's, for an environment.
func (at *attempt) player(env episode.Environment) *episode.Player {
	return &episode.Player{Environment: env, Policy: &at.usageCounter, Beat: at.progress.beat,
		Now: at.Now, Watch: at.watch}
}

// asPlan converts the attempt to the plan of its episode.
func (at *attempt) asPlan() episode.Plan {
	return episode.Plan{
		Ref: at.ref, Attempt: at.number, Counted: at.counted, Model: at.plan.Model, Version: at.plan.Version,
		Player: at.plan.Player,
		Fixed:  at.plan.Fixed, Elsewhere: at.plan.Elsewhere,
		Sampling: at.plan.Sampling, Timeouts: at.plan.Timeouts, Seed: at.plan.Seed,
	}
}

func (at *attempt) play(ctx context.Context) (rollout.Episode, error) {
	if finished, err := at.begin(ctx); finished || err != nil {
		return rollout.Episode{}, err
	}
	env, err := at.environment()
	if err != nil {
		return rollout.Episode{}, err
	}
	player := at.player(env)
	scenario, err := at.scenario(ctx, player)
	if err != nil {
		return rollout.Episode{}, err
	}
	kept, err := at.Buffer.OpenJournal(ctx, at.ref, at.number)
	if err != nil {
		return rollout.Episode{}, fmt.Errorf("open journal of %s: %w", at.ref, err)
	}
	defer kept.Close()
	from, turns := kept.Checkpoint(), newAnswerCache(at.Policy, kept, at.number)
	turns.limit = at.plan.Timeouts.PhaseLimit()
	at.usageCounter.start(turns, from)
	player.Journal = journal{at, turns, kept}
	player.Newest = at.newest(at.plan)
	ep, game, err := player.Play(ctx, at.asPlan(), scenario, from)
	if err != nil {
		return ep, err
	}
	ep.Usage.RepeatedTokens += turns.repeated.Load()
	if err := kept.End(ctx, ep, game); err != nil {
		return ep, fmt.Errorf("save episode %s: %w", at.ref, err)
	}
	at.countFinished(ctx, ep)
	return ep, nil
}

func (at *attempt) environment() (episode.Environment, error) {
	env, err := at.Environments(at.plan.Environment)
	if err != nil {
		return nil, rollout.Fail(rollout.Permanent, rollout.CodeEnvironment, err)
	}
	return env, nil
}

// newest finds the version that plays a phase; nil where games keep the version that their group was launched with.
func (a *Activities) newest(plan GroupPlan) func(context.Context) (episode.Served, error) {
	if plan.Refresh != runspec.RefreshTurn {
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

// journal saves one attempt's checkpoints; the buffer fences off an attempt that was taken for dead.
type journal struct {
	at    *attempt
	turns *answerCache
	kept  buffer.Journal
}

// Save saves a checkpoint with the tokens that this attempt has repeated; those of earlier ones came with the
// checkpoint.
func (j journal) Save(ctx context.Context, c rollout.Checkpoint) error {
	c.Episode.Usage.RepeatedTokens += j.turns.repeated.Load()
	err := j.kept.Phase(ctx, c)
	if err == nil {
		j.at.countProgress(ctx)
	}
	return err
}
