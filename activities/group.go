package activities

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
)

// GroupEnd says what became of a group.
type GroupEnd struct {
	Seq  rollout.GroupSeq `json:"seq"`
	Code string           `json:"code,omitempty"` // why it was dropped; empty when it is ready
}

// CommitGroup reads the group's finished games, compares their rewards and makes the group ready, once.
func (a *Activities) CommitGroup(ctx context.Context, plan GroupPlan) (GroupEnd, error) {
	episodes, err := a.Buffer.Episodes(ctx, plan.Ref, plan.Samples)
	if err != nil {
		return GroupEnd{}, typed(fmt.Errorf("read games of %s: %w", plan.Ref, err))
	}
	// Games that were finished may be gone: with a Redis that lost them, or because the group is committed. Without rows
	// the buffer tells the two apart.
	gone := len(episodes) < plan.MinSamples
	if gone {
		episodes = nil
	}
	group := assemble(plan, episodes, a.Now())
	commit, err := a.Buffer.CommitGroup(ctx, &group)
	if gone && rollout.Refused(err, rollout.Invalid) {
		err = rollout.Fail(rollout.GameFault, "games_lost", fmt.Errorf("fewer than %d finished games are left", plan.MinSamples))
	}
	if err != nil {
		return GroupEnd{}, typed(fmt.Errorf("commit %s: %w", plan.Ref, err))
	}
	if commit.Dropped != "" {
		a.emit(plan.Ref.Run, plan.Ref.String()+"/dropped", telemetry.GroupDropped{Seq: plan.Ref.Seq, Code: commit.Dropped})
		return GroupEnd{Seq: plan.Ref.Seq, Code: commit.Dropped}, nil
	}
	if !commit.Duplicate {
		a.emit(plan.Ref.Run, plan.Ref.String()+"/ready", telemetry.GroupReady{
			Group: group.View(), Trajectories: len(group.Trajectories), Failed: group.Failed,
		})
	}
	return GroupEnd{Seq: plan.Ref.Seq}, nil
}

// assemble makes a group of its games.
func assemble(plan GroupPlan, episodes []rollout.Episode, now time.Time) rollout.Group {
	g := rollout.Group{
		Ref:        plan.Ref,
		MinVersion: plan.Version,
		MaxVersion: plan.Version,
		Samples:    len(episodes),
		Failed:     plan.Samples - len(episodes),
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
	Code string           `json:"code"`
}

// DiscardGroup takes a group out of the buffer's account.
func (a *Activities) DiscardGroup(ctx context.Context, in DiscardInput) error {
	if err := a.Buffer.Discard(ctx, in.Ref, in.Code); err != nil {
		return typed(fmt.Errorf("discard %s: %w", in.Ref, err))
	}
	a.emit(in.Ref.Run, in.Ref.String()+"/dropped", telemetry.GroupDropped{Seq: in.Ref.Seq, Code: in.Code})
	return nil
}
