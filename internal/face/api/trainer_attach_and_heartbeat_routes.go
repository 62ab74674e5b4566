package api

import (
	"context"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Attached is the answer to a trainer that announced itself.
type Attached struct {
	Generation    rollout.TrainerGeneration `json:"generation" doc:"Send it with every claim and record; a newer one fences this trainer off"`
	NextStep      rollout.Step              `json:"next_step" doc:"The step to claim first"`
	PolicyVersion rollout.PolicyVersion     `json:"policy_version" doc:"Newest version that serves; publish the next one"`
	Spec          runspec.Spec              `json:"spec"`
}

func (s *Server) attach(ctx context.Context, in *struct {
	RunPath
	Body *struct {
		ResumeFrom *rollout.Step `json:"resume_from,omitempty" minimum:"0" doc:"First step to train again, after restoring the checkpoint before it"`
	}
}) (Attached, error) {
	var from *rollout.Step
	if in.Body != nil {
		from = in.Body.ResumeFrom
	}
	s.acquaint(ctx, in.Run)
	generation, next, err := s.deps.Store.Attach(ctx, in.Run, from)
	if err != nil {
		return Attached{}, s.missed(ctx, in.Run, err)
	}
	s.witness(ctx, in.Run)
	s.waiters.wakeAll(in.Run) // Polls of the trainer before this one are over.
	status, err := s.deps.Store.Status(ctx, in.Run)
	return Attached{generation, next, status.PolicyVersion, s.shown(status).Spec}, err
}

type heartbeatInput struct {
	RunPath
	Body struct {
		Generation rollout.TrainerGeneration `json:"generation" minimum:"0" doc:"As with the claim"`
		Ended      string                    `json:"ended,omitempty" maxLength:"500" doc:"Why the trainer ends, if it does, such as a loss that is not a number; the run says so until a trainer is heard of again"`
	}
}

// heartbeat notes that the trainer lives while it trains, or why it ends.
func (s *Server) heartbeat(ctx context.Context, in *heartbeatInput) (*struct{}, error) {
	return nil, s.fail(ctx, "note a heartbeat", s.deps.Store.Heartbeat(ctx, in.Run, in.Body.Generation, in.Body.Ended))
}
