package apiclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Game is one game as its environment writes it.
func (c *Client) Game(ctx context.Context, ref rollout.EpisodeRef) ([]byte, error) {
	a, err := c.Call(ctx, http.MethodGet, fmt.Sprintf("%s/games/%d/%d", RunPath(ref.Run), ref.Seq, ref.Sample), "", nil)
	return a.Body, err
}

// latestTried bounds how many groups LatestGame asks about.
const latestTried = 64

// LatestGame is the newest game of a run with kept data: the first game of the newest group that has begun.
func (c *Client) LatestGame(ctx context.Context, run rollout.RunName) (rollout.EpisodeRef, []byte, error) {
	type view struct {
		Buffer steprecord.BufferCounts `json:"buffer"`
	}
	v, _, err := Get[view](ctx, c, RunPath(run))
	if err != nil {
		return rollout.EpisodeRef{}, nil, err
	}
	b := v.Buffer
	next := b.InFlight + b.Ready + b.Claimed + b.Completed + b.Dropped
	why := "none has begun"
	for seq := next - 1; seq >= max(0, next-latestTried); seq-- {
		ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: run, Seq: rollout.GroupSeq(seq)}}
		game, err := c.Game(ctx, ref)
		var refused *Problem
		if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
			if seq == next-1 {
				why = refused.Detail
			}
			continue
		}
		return ref, game, err
	}
	return rollout.EpisodeRef{}, nil, &Problem{Status: http.StatusNotFound, Detail: fmt.Sprintf(
		"there is no game of %s to show; of the newest: %s; see: millrace run show %s", run, why, run)}
}
