package activities

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/rollout"
)

// Groups is what the activities need of Temporal itself.
type Groups interface {
	GroupRunning(ctx context.Context, ref rollout.GroupRef) (bool, error)
	// TellEnd tells a run how a group of it ended. A run that is over needs to hear nothing.
	TellEnd(ctx context.Context, run rollout.RunName, end GroupEnd) error
}

// LookInput names groups that a run takes to be in play.
type LookInput struct {
	Run  rollout.RunName    `json:"run"`
	Seqs []rollout.GroupSeq `json:"seqs"`
}

// lookAtOnce bounds the questions to Temporal under way.
const lookAtOnce = 8

// LookForGroups answers which of the groups have no running workflow.
func (a *Activities) LookForGroups(ctx context.Context, in LookInput) ([]rollout.GroupSeq, error) {
	running := make([]bool, len(in.Seqs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(lookAtOnce)
	for i, seq := range in.Seqs {
		g.Go(func() (err error) {
			running[i], err = a.Groups.GroupRunning(ctx, rollout.GroupRef{Run: in.Run, Seq: seq})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, typed(fmt.Errorf("look for groups of %s: %w", in.Run, err))
	}
	gone := []rollout.GroupSeq{}
	for i, seq := range in.Seqs {
		if !running[i] {
			gone = append(gone, seq)
		}
	}
	return gone, nil
}
