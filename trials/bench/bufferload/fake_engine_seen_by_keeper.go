package bufferload

import (
	"context"
	"sync/atomic"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/trials/bench/benchservice"
)

// countedEngine is an engine as the keeper sees it: it is well, and has answered its part of the turns.
type countedEngine struct {
	load []*worker
	said atomic.Int64
}

var _ fleet.Client = (*countedEngine)(nil)

func (*countedEngine) Health(context.Context) error { return nil }

func (*countedEngine) Version(context.Context) (string, error) { return "0.11.0", nil }

func (*countedEngine) LoadAdapter(context.Context, string, string) error { return nil }

func (*countedEngine) UnloadAdapter(context.Context, string) error { return nil }

func (*countedEngine) Models(context.Context) ([]vllm.Model, error) {
	return []vllm.Model{{ID: benchservice.Model}}, nil
}

func (e *countedEngine) Metrics(context.Context) (vllm.Sample, error) {
	n := float64(e.said.Add(1))
	for _, w := range e.load {
		n += float64(w.turns.Load())
	}
	return vllm.Sample{PromptTokens: n * promptTokens, GenerationTokens: n * answerTokens, Running: 1}, nil
}

func (*countedEngine) Score(context.Context, string, []int32) ([]float64, error) { return nil, nil }

func (*countedEngine) Complete(_ context.Context, req rollout.Request) (rollout.Completion, error) {
	return rollout.Completion{Text: "1", TokenIDs: []int32{1}, Model: req.Model, FinishReason: rollout.FinishStop}, nil
}
