package api

import (
	"context"
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/rollout"
)

func (s *Server) registerDiagnosis() {
	s.registerEvents()
	huma.Register(s.api, s.operation(get, "/v1/runs/{run}/diagnosis", "diagnose-run", "insight", "Diagnose a run",
		"Where the time of its steps goes, what changed and when, and what would and would not help."), s.diagnose)
	huma.Register(s.api, s.operation(get, "/v1/runs/{run}/games/{group}/{episode}", "show-game", "insight", "Show a game",
		"One game of a group, as its environment writes it, in progress or over, while the group is kept."), s.showGame)
}

func (s *Server) diagnose(ctx context.Context, in *RunPath) (*struct{ Body any }, error) {
	if s.deps.Diagnose == nil {
		return nil, problem(codeNotAvailable, "this server has no diagnosis")
	}
	account, err := s.deps.Store.Account(ctx, in.Run)
	if err != nil {
		return nil, s.fail(ctx, "diagnose", err)
	}
	mark := accountMark{account.Counts, account.Launched, account.ClaimedTo, account.Version, account.Generation}
	value, err := s.diagnoses.of(ctx, in.Run, mark, s.deps.Now, func(ctx context.Context) (any, error) {
		leave, ok := s.gates.analyses.enter(ctx, string(in.Run))
		if !ok {
			return nil, overloaded("diagnoses", "")
		}
		defer leave()
		return s.deps.Diagnose(ctx, in.Run)
	})
	if err != nil {
		return nil, s.fail(ctx, "diagnose", err)
	}
	return &struct{ Body any }{value}, nil
}

func (s *Server) showGame(ctx context.Context, in *struct {
	RunPath
	Group   rollout.GroupSeq `path:"group" minimum:"0"`
	Episode int              `path:"episode" minimum:"0"`
}) (*struct{ Body json.RawMessage }, error) {
	if s.deps.Game == nil {
		return nil, problem(codeNotAvailable, "this server shows no games")
	}
	ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: in.Run, Seq: in.Group}, Sample: in.Episode}
	game, err := s.deps.Game(ctx, ref)
	if rollout.Refused(err, rollout.NotRetained) {
		return nil, problem(codeNoGame, err.Error())
	}
	if err != nil {
		return nil, s.fail(ctx, "show game", err)
	}
	return &struct{ Body json.RawMessage }{game}, nil
}
