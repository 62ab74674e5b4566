package api

import (
	"context"
	"encoding/json"

	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/rollout"
)

// gamesInput says which games are listed, and how.
type gamesInput struct {
	RunPath
	Sort    string           `query:"sort" maxLength:"16" doc:"group (the newest first), reward, length, seconds, failure, version or ended; with - before it the other way round"`
	State   gamelist.State   `query:"state" enum:"playing,finished,failed,cancelled" doc:"Only games in this state"`
	Group   rollout.GroupSeq `query:"group" default:"-1" minimum:"-1" doc:"Only games of this group"`
	Version int64            `query:"version" default:"-1" minimum:"-1" doc:"Only games that this policy version sampled any turn of"`
	Code    rollout.Code     `query:"code" maxLength:"64" doc:"Only games whose last failed attempt had this code; any: that had one"`
	Agent   string           `query:"agent" maxLength:"64" doc:"Whose reward is meant; without it the mean of all agents"`
	After   string           `query:"after" maxLength:"32" doc:"next of the page before: only games after that one"`
	Limit   int              `query:"limit" minimum:"1" maximum:"500" default:"100"`
}

func (in *gamesInput) query() gamelist.Query {
	q := gamelist.Query{Sort: in.Sort, State: in.State, Code: in.Code, Agent: in.Agent, After: in.After, Limit: in.Limit}
	if in.Group >= 0 {
		q.Group = &in.Group
	}
	if in.Version >= 0 {
		version := rollout.PolicyVersion(in.Version)
		q.Version = &version
	}
	return q
}

func (s *Server) listGames(ctx context.Context, in *gamesInput) (gamelist.Page, error) {
	return s.deps.Games.Games(ctx, in.Run, in.query())
}

// GamePath names a game. It is exported because huma fills only such ones where they are embedded.
type GamePath struct {
	RunPath
	Group   rollout.GroupSeq `path:"group" minimum:"0"`
	Episode int              `path:"episode" minimum:"0"`
}

func (in *GamePath) ref() rollout.EpisodeRef {
	return rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: in.Run, Seq: in.Group}, Sample: in.Episode}
}

func (s *Server) listTurns(ctx context.Context, in *GamePath) (gamelist.Turns, error) {
	turns, err := s.deps.Games.Turns(ctx, in.ref())
	return turns, unlessKept(err)
}

func (s *Server) showTurn(ctx context.Context, in *struct {
	GamePath
	Turn int `path:"turn" minimum:"0"`
}) (gamelist.Turn, error) {
	turn, err := s.deps.Games.Turn(ctx, in.ref(), in.Turn)
	return turn, unlessKept(err)
}

// unlessKept is the refusal for a game that is not kept.
func unlessKept(err error) error {
	if rollout.Refused(err, rollout.NotRetained) {
		return problem(codeNoGame, err.Error())
	}
	return err
}

func (s *Server) showGame(ctx context.Context, in *GamePath) (json.RawMessage, error) {
	game, err := s.deps.Game(ctx, in.ref())
	return game, unlessKept(err)
}
