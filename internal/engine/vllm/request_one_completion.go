package vllm

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	openai "github.com/sashabaranov/go-openai"

	"github.com/millrace/millrace/internal/rollout"
)

// Complete samples one completion. req.Timeout bounds it from here to the last byte. It returns an answer that is fit
// to be trained on, or a failure with one of this package's codes.
//
// Only text, tokens, logprobs, model and cached tokens are filled in; the caller adds the rest.
func (c *Client) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	if err := check(&req); err != nil {
		return rollout.Completion{}, badRequest(err)
	}
	said, err := c.complete(ctx, &req)
	if err != nil {
		return rollout.Completion{}, err
	}
	return said.answer.verify(&req, said.prompt)
}

// complete makes the call.
func (c *Client) complete(ctx context.Context, req *rollout.Request) (*call, error) {
	timeout := req.Timeout.Std()
	timeout = cmp.Or(timeout, c.cfg.CompletionTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	call, err := newCall(req, c.cfg.IgnoreEOS)
	if err != nil {
		return nil, badRequest(err)
	}
	if len(req.Messages) > 0 {
		if call.prompt, err = c.chatTokens(ctx, req); err != nil {
			return nil, err
		}
	}
	seed := int(req.Seed)
	_, err = c.openai.CreateCompletion(call.in(ctx), openai.CompletionRequest{
		Model:     req.Model,
		Prompt:    req.Prompt,
		MaxTokens: req.Sampling.MaxTokens,
		Stop:      req.Stop,
		Seed:      &seed,
		// The sampling fields go through the call: here a zero would be left out, and floats are rounded.
	})
	if errors.Is(err, openai.ErrCompletionUnsupportedModel) {
		return nil, badRequest(fmt.Errorf("model %q: the name is one of OpenAI's; serve the model under "+
			"another", req.Model))
	}
	if err != nil {
		return nil, failure(ctx, "completion", err)
	}
	return call, nil
}

// badRequest is the failure of a request that was not sent.
func badRequest(err error) error {
	return rollout.Fail(rollout.Permanent, rollout.CodeBadRequest, &unsent{fmt.Errorf("completion: %w", err)})
}

type unsent struct{ error }

func (e *unsent) Unwrap() error { return e.error }

// Unsent reports whether a request failed before any engine saw it: whatever engine it goes to, it will again.
func Unsent(err error) bool {
	var e *unsent
	return errors.As(err, &e)
}

// check refuses what an engine would misunderstand in silence.
func check(req *rollout.Request) error {
	switch {
	case req.Model == "":
		return errors.New("no model: the engine would silently use its base model")
	case req.Sampling.MaxTokens < 1:
		return fmt.Errorf("max_tokens %d: want at least 1", req.Sampling.MaxTokens)
	case req.Sampling.Temperature < 0, req.Sampling.TopP < 0, req.Sampling.TopP > 1:
		return fmt.Errorf("temperature %g, top_p %g: want temperature >= 0 and top_p from 0 to 1",
			req.Sampling.Temperature, req.Sampling.TopP)
	}
	return nil
}
