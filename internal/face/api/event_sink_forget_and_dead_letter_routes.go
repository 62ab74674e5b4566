package api

import (
	"context"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/eventstore/delivery"
)

// DeadLetters is the events that the sink refused.
type DeadLetters interface {
	DeadLetters(ctx context.Context, after string, limit int) ([]delivery.DeadLetter, error)
	DeadLetterCount(ctx context.Context) (kept, all int64, err error)
	// Replay has them delivered again: those with the ids, or all.
	Replay(ctx context.Context, ids ...string) (int, error)
	DropDeadLetters(ctx context.Context, ids ...string) (int, error)
	// ForgetSink deletes the state and dead letters of a sink that is no longer delivered to.
	ForgetSink(ctx context.Context) error
}

// SinkPath names a sink.
type SinkPath struct {
	Sink string `path:"sink" enum:"axiom" doc:"The sink's name"`
}

// LetterList is events that the sink refused.
type LetterList struct {
	DeadLetters []delivery.DeadLetter `json:"dead_letters"`
	Kept        int64                 `json:"kept" doc:"How many there are"`
	Ever        int64                 `json:"ever" doc:"How many there were"`
	Next        string                `json:"next,omitempty" doc:"Ask for those after this id"`
}

func (s *Server) listDeadLetters(ctx context.Context, in *struct {
	SinkPath
	After string `query:"after" maxLength:"64" doc:"Only those after the one with this id"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many"`
}) (out LetterList, err error) {
	found, err := s.deps.DeadLetters.DeadLetters(ctx, in.After, in.Limit)
	if err != nil {
		return out, err
	}
	out.DeadLetters = listed(found)
	if len(found) == in.Limit {
		out.Next = found[len(found)-1].ID
	}
	out.Kept, out.Ever, err = s.deps.DeadLetters.DeadLetterCount(ctx)
	return out, err
}

// LetterChoice is which dead letters are meant.
type LetterChoice struct {
	SinkPath
	Body struct {
		IDs []string `json:"ids,omitempty" maxItems:"1000" doc:"As they were listed"`
		All bool     `json:"all,omitempty" doc:"All of them; say this, or ids"`
	}
}

// LetterCount is how many of them were meant.
type LetterCount struct {
	Events int `json:"events" doc:"How many were meant, and there"`
}

func (s *Server) replayDeadLetters(ctx context.Context, in *LetterChoice) (LetterCount, error) {
	return s.changeLetters(ctx, in, DeadLetters.Replay)
}

func (s *Server) dropDeadLetters(ctx context.Context, in *LetterChoice) (LetterCount, error) {
	return s.changeLetters(ctx, in, DeadLetters.DropDeadLetters)
}

func (s *Server) forgetSink(ctx context.Context, _ *SinkPath) (*struct{}, error) {
	return nil, s.fail(ctx, "forget sink", s.deps.DeadLetters.ForgetSink(ctx))
}

func (s *Server) changeLetters(ctx context.Context, in *LetterChoice,
	change func(DeadLetters, context.Context, ...string) (int, error)) (LetterCount, error) {
	if c := in.Body; c.All == (len(c.IDs) > 0) {
		return LetterCount{}, problem(rollout.Invalid, "say which dead letters are meant: ids, or all")
	}
	n, err := change(s.deps.DeadLetters, ctx, in.Body.IDs...)
	return LetterCount{n}, err
}
