package server

import (
	"context"
	"errors"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/face/savedgame"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// engineTokenizer has a ready engine write tokens as text, for people who look at a turn.
type engineTokenizer struct {
	registry *fleet.Registry
	clients  *connections.EngineClients
}

var _ savedgame.Tokenizer = (*engineTokenizer)(nil)

// Detokenize is the text of tokens.
func (t *engineTokenizer) Detokenize(ctx context.Context, model string, ids []int32) (string, error) {
	return askReady(ctx, t, func(c *vllm.Client) (string, error) { return c.Detokenize(ctx, model, ids) })
}

// CountTokens is how many tokens the messages of a request have in the model's chat template.
func (t *engineTokenizer) CountTokens(ctx context.Context, req rollout.Request) (int, error) {
	return askReady(ctx, t, func(c *vllm.Client) (int, error) { return c.CountTokens(ctx, &req) })
}

// askReady asks ready engines, one after the other, until one answers.
func askReady[T any](ctx context.Context, t *engineTokenizer, question func(*vllm.Client) (T, error)) (answer T,
	err error) {
	engines, err := t.registry.List(ctx)
	if err != nil {
		return answer, err
	}
	var ready []enginestate.Engine
	for _, e := range engines {
		if e.State == enginestate.EngineReady {
			ready = append(ready, e)
		}
	}
	if len(ready) == 0 {
		return answer, errors.New("no engine is ready")
	}
	return vllm.First(ready, t.clients.Get, question)
}
