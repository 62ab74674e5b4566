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
		"Where the time of its steps goes, what changed and when, and what would and would not help. With step: that step "+
			"second by second, where the trainer waited for which group, and what that group was doing."), s.diagnose)
	huma.Register(s.api, s.operation(get, "/v1/runs/{run}/games/{group}/{episode}", "show-game", "insight", "Show a game",
		"One game of a group, as its environment writes it, in progress or over, while the group is kept."), s.showGame)
	s.registerGames()
}

// diagnosisInput bounds what is diagnosed; -1 is no bound.
type diagnosisInput struct {
	RunPath
	Step  int64 `query:"step" default:"-1" minimum:"-1" doc:"This step alone, second by second"`
	First int64 `query:"from" default:"-1" minimum:"-1" doc:"The first step that is looked at"`
	Last  int64 `query:"to" default:"-1" minimum:"-1" doc:"The last step that is looked at"`
}

func (in *diagnosisInput) asked() DiagnosisQuery {
	bound := func(n int64) *rollout.Step {
		if n < 0 {
			return nil
		}
		step := rollout.Step(n)
		return &step
	}
	return DiagnosisQuery{Step: bound(in.Step), First: bound(in.First), Last: bound(in.Last)}
}

func (s *Server) diagnose(ctx context.Context, in *diagnosisInput) (*struct{ Body any }, error) {
	if s.deps.Diagnose == nil {
		return nil, problem(codeNotAvailable, "this server has no diagnosis")
	}
	asked := in.asked()
	if asked.First != nil && asked.Last != nil && *asked.First > *asked.Last {
		return nil, s.fail(ctx, "diagnose", rollout.Refuse(rollout.Invalid, "no step lies from %d to %d", in.First, in.Last))
	}
	analyse := func(ctx context.Context) (any, error) {
		leave, ok := s.gates.analyses.enter(ctx, string(in.Run))
		if !ok {
			return nil, overloaded("diagnoses", "")
		}
		defer leave()
		return s.deps.Diagnose(ctx, in.Run, asked)
	}
	if !asked.Whole() {
		value, err := analyse(ctx)
		if err != nil {
			return nil, s.fail(ctx, "diagnose", err)
		}
		return &struct{ Body any }{value}, nil
	}
	account, err := s.deps.Store.Account(ctx, in.Run)
	if err != nil {
		return nil, s.fail(ctx, "diagnose", err)
	}
	mark := accountMark{account.Counts, account.Launched, account.ClaimedTo, account.Version, account.Generation}
	value, err := s.diagnoses.of(ctx, in.Run, mark, s.deps.Now, analyse)
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
