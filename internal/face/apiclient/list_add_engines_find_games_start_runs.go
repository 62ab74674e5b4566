package apiclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// EnginePath is where the API has an engine.
func EnginePath(id string) string { return "/v1/engines/" + url.PathEscape(id) }

// Engines is the fleet, also as the server wrote it.
func (c *Client) Engines(ctx context.Context) ([]enginestate.Engine, Answer, error) {
	type list struct {
		Engines []enginestate.Engine `json:"engines"`
	}
	l, a, err := Get[list](ctx, c, "/v1/engines")
	return l.Engines, a, err
}

// AddEngine makes an engine a member of the fleet, or finds that it is one.
func (c *Client) AddEngine(ctx context.Context, id, address string, maxInFlight int) (enginestate.Engine, Answer,
	error) {
	body := struct {
		URL         string `json:"url"`
		MaxInFlight int    `json:"max_in_flight,omitempty"`
	}{address, maxInFlight}
	return Send[enginestate.Engine](ctx, c, http.MethodPut, EnginePath(id), body)
}

// GamePath is where the API has a game.
func GamePath(ref rollout.EpisodeRef) string {
	return fmt.Sprintf("%s/games/%d/%d", RunPath(ref.Run), ref.Seq, ref.Sample)
}

// Game is one game as its environment writes it.
func (c *Client) Game(ctx context.Context, ref rollout.EpisodeRef) ([]byte, error) {
	a, err := c.Call(ctx, http.MethodGet, GamePath(ref), "", nil)
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

// RunPath is where the API has a run.
func RunPath(run rollout.RunName) string { return "/v1/runs/" + url.PathEscape(string(run)) }

// StartRun starts a run, or finds that it was started before.
func (c *Client) StartRun(ctx context.Context, spec runspec.Spec) error {
	_, _, err := Send[runstatus.RunStatus](ctx, c, http.MethodPost, "/v1/runs", spec)
	return err
}
