package fleet

import (
	"context"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
)

// Client is the fleet's view of an engine. Every call has a deadline of its own and returns typed failures
// (rollout.Failure).
type Client interface {
	Health(ctx context.Context) error
	Version(ctx context.Context) (string, error)
	Models(ctx context.Context) ([]vllm.Model, error)
	LoadAdapter(ctx context.Context, name, path string) error
	UnloadAdapter(ctx context.Context, name string) error
	Metrics(ctx context.Context) (vllm.Sample, error)
	// Score is the logprobs of the tokens after the first, in nats at temperature 1.
	Score(ctx context.Context, model string, tokens []int32) ([]float64, error)
	Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error)
}

var _ Client = (*vllm.Client)(nil)
