package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/face/savedgame"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// mostAsked is how many engines are asked for the text of tokens before it is left out.
const mostAsked = 3

// engineTokenizer has a ready engine write tokens as text, for people who look at a turn.
type engineTokenizer struct {
	registry *fleet.Registry
	clients  *connections.EngineClients
}

var _ savedgame.Tokenizer = (*engineTokenizer)(nil)

// Detokenize is the text of tokens.
func (t *engineTokenizer) Detokenize(ctx context.Context, model string, ids []int32) (text string, err error) {
	err = t.ask(ctx, func(c *vllm.Client) error { text, err = c.Detokenize(ctx, model, ids); return err })
	return text, err
}

// CountTokens is how many tokens the messages of a request have in the model's chat template.
func (t *engineTokenizer) CountTokens(ctx context.Context, req rollout.Request) (n int, err error) {
	err = t.ask(ctx, func(c *vllm.Client) error { n, err = c.CountTokens(ctx, &req); return err })
	return n, err
}

// ask asks ready engines, one after the other, until one answers.
func (t *engineTokenizer) ask(ctx context.Context, question func(*vllm.Client) error) error {
	engines, err := t.registry.List(ctx)
	if err != nil {
		return err
	}
	faults := []error{}
	for _, e := range engines {
		if e.State != enginestate.EngineReady || len(faults) == mostAsked {
			continue
		}
		err := t.askOne(e, question)
		if err == nil {
			return nil
		}
		faults = append(faults, fmt.Errorf("engine %s: %w", e.ID, err))
	}
	if len(faults) == 0 {
		return errors.New("no engine is ready")
	}
	return errors.Join(faults...)
}

func (t *engineTokenizer) askOne(e enginestate.Engine, question func(*vllm.Client) error) error {
	client, err := t.clients.Get(e)
	if err != nil {
		return err
	}
	return question(client)
}
