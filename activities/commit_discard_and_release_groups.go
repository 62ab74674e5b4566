package activities

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// GroupEnd says what became of a group.
type GroupEnd struct {
	Seq  rollout.GroupSeq `json:"seq"`
	Code rollout.Code     `json:"code,omitempty"` // why it was dropped; empty when it is ready
	// the group had several games, all with the same rewards
	ZeroVariance bool `json:"zero_variance,omitempty"`
	// share of the games in which the learner ended before the opponent that the league drew
	Score *float64 `json:"score,omitempty"`
}

// CommitInput names the games that a group is made of.
type CommitInput struct {
	GroupPlan
	// Finished is the samples whose games count: a surplus one may have finished since. Nil is all that have.
	Finished  []int `json:"finished,omitempty"`
	Cancelled int   `json:"cancelled,omitempty"` // games cancelled because others sufficed
}

// Committed says what became of a group, and whether its run knows.
type Committed struct {
	GroupEnd
	Told bool `json:"told,omitempty"`
}

// CommitGroup reads the group's finished games, compares their rewards, makes the group ready, once, and tells its run.
// A group without variance is dropped instead if the plan says so.
func (a *Activities) CommitGroup(ctx context.Context, in CommitInput) (Committed, error) {
	end, err := a.commit(ctx, in)
	if err != nil {
		return Committed{}, err
	}
	told := a.Groups.TellEnd(ctx, in.Ref.Run, end) == nil // else the group's workflow tells it
	return Committed{GroupEnd: end, Told: told}, nil
}

func (a *Activities) commit(ctx context.Context, in CommitInput) (GroupEnd, error) {
	plan := in.GroupPlan
	episodes, err := a.finished(ctx, in)
	if err != nil {
		return GroupEnd{}, typed(fmt.Errorf("read games of %s: %w", plan.Ref, err))
	}
	// Games that were finished may be gone: with a Redis that lost them, or because the group is committed. Without
	// rows the buffer tells the two apart.
	gone := len(episodes) < plan.MinSamples
	if gone {
		episodes = nil
	}
	group := assemble(in, episodes, a.Now())
	zeroVariance := len(episodes) > 1 && rollout.HasZeroVariance(group.Trajectories)
	if plan.ZeroVariance.Drops(len(episodes), zeroVariance) {
		return GroupEnd{Seq: plan.Ref.Seq, Code: rollout.CodeZeroVariance, ZeroVariance: true, Score: score(plan, group)},
			a.discard(ctx, plan.Ref, rollout.CodeZeroVariance, group.Phases)
	}
	commit, err := a.Buffer.CommitGroup(ctx, &group)
	if gone && rollout.Refused(err, rollout.Invalid) {
		err = rollout.Fail(rollout.GameFault, rollout.CodeGamesLost, fmt.Errorf("fewer than %d finished games are left",
			plan.MinSamples))
	}
	if err != nil {
		return GroupEnd{}, typed(fmt.Errorf("commit %s: %w", plan.Ref, err))
	}
	if commit.Dropped != "" {
		return GroupEnd{Seq: plan.Ref.Seq, Code: commit.Dropped}, nil
	}
	return GroupEnd{Seq: plan.Ref.Seq, ZeroVariance: zeroVariance, Score: score(plan, group)}, nil
}

// score is the group's result against the opponent that the league drew, as far as it is known.
func score(plan GroupPlan, g rollout.Group) *float64 {
	sum, games := 0.0, 0
	for order, n := range g.Orders {
		if share, met := order.Score(plan.Player, plan.Opponent); met {
			sum, games = sum+share*float64(n), games+n
		}
	}
	if games == 0 {
		return nil
	}
	mean := sum / float64(games)
	return &mean
}

// finished is the games that the group is made of, as far as they are left.
func (a *Activities) finished(ctx context.Context, in CommitInput) ([]rollout.Episode, error) {
	episodes, err := a.Buffer.Episodes(ctx, in.Ref, in.Samples+in.Oversample)
	if in.Finished == nil {
		return episodes, err
	}
	return slices.DeleteFunc(episodes, func(e rollout.Episode) bool {
		return !slices.Contains(in.Finished, e.Ref.Sample)
	}), err
}

// assemble makes a group of its games.
func assemble(in CommitInput, episodes []rollout.Episode, now time.Time) rollout.Group {
	plan := in.GroupPlan
	g := rollout.Group{
		Ref:        plan.Ref,
		MinVersion: plan.Version,
		MaxVersion: plan.Version,
		Samples:    len(episodes),
		Failed:     plan.Samples + plan.Oversample - in.Cancelled - len(episodes),
		Cancelled:  in.Cancelled,
		Counts:     map[string]int64{},
		Orders:     map[rollout.Order]int{},
		Times:      rollout.GroupTimes{LaunchedAt: plan.LaunchedAt, ReadyAt: now},
	}
	asked := false
	for i := range episodes {
		ep := &episodes[i]
		g.Trajectories = append(g.Trajectories, ep.Trajectories...)
		g.Usage = g.Usage.Add(ep.Usage)
		g.EpisodeSec = append(g.EpisodeSec, ep.FinishedAt.Sub(ep.StartedAt).Seconds())
		g.ModelSec = append(g.ModelSec, ep.ModelSec)
		g.QueueSec = append(g.QueueSec, ep.QueueSec)
		g.EnvSec = append(g.EnvSec, ep.EnvSec)
		g.Phases = append(g.Phases, ep.Phases)
		for name, n := range ep.Counts {
			g.Counts[name] += n
		}
		if ep.Order != "" {
			g.Orders[ep.Order]++
		}
		if g.Times.StartedAt.IsZero() || ep.StartedAt.Before(g.Times.StartedAt) {
			g.Times.StartedAt = ep.StartedAt
		}
		for t := range ep.Trajectories {
			for _, turn := range ep.Trajectories[t].Turns {
				if !asked {
					g.MinVersion, asked = turn.PolicyVersion, true
				}
				g.MinVersion = min(g.MinVersion, turn.PolicyVersion)
				g.MaxVersion = max(g.MaxVersion, turn.PolicyVersion)
			}
		}
	}
	rollout.Normalise(g.Trajectories)
	return g
}

// DiscardInput names a group that will not be trained on.
type DiscardInput struct {
	Ref  rollout.GroupRef `json:"ref"`
	Code rollout.Code     `json:"code"`
}

// DiscardGroup takes a group out of the buffer's account.
func (a *Activities) DiscardGroup(ctx context.Context, in DiscardInput) error {
	return a.discard(ctx, in.Ref, in.Code, nil)
}

func (a *Activities) discard(ctx context.Context, ref rollout.GroupRef, code rollout.Code, phases []int) error {
	if err := a.Buffer.Discard(ctx, ref, code, phases...); err != nil {
		return typed(fmt.Errorf("discard %s: %w", ref, err))
	}
	return nil
}

// ReleaseInput names groups that a run does not want any more.
type ReleaseInput struct {
	Run    rollout.RunName    `json:"run"`
	Seqs   []rollout.GroupSeq `json:"seqs"`
	Code   rollout.Code       `json:"code"`
	Queued bool               `json:"queued,omitempty"` // only groups without a dispatched request
}

// ReleaseGroups takes groups out of the buffer's account, and answers which: those that have gone on meanwhile, to
// where they cannot be let go of, stay.
func (a *Activities) ReleaseGroups(ctx context.Context, in ReleaseInput) ([]rollout.GroupSeq, error) {
	var released []rollout.GroupSeq
	for _, seq := range in.Seqs {
		ref := rollout.GroupRef{Run: in.Run, Seq: seq}
		gone, err := a.release(ctx, ref, in)
		if err != nil {
			return released, typed(fmt.Errorf("release %s: %w", ref, err))
		}
		if gone {
			released = append(released, seq)
		}
	}
	return released, nil
}

func (a *Activities) release(ctx context.Context, ref rollout.GroupRef, in ReleaseInput) (bool, error) {
	if in.Queued {
		return a.Buffer.Release(ctx, ref, in.Code)
	}
	err := a.Buffer.Discard(ctx, ref, in.Code)
	if rollout.Refused(err, rollout.Conflict) {
		return false, nil
	}
	return err == nil, err
}
