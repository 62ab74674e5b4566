package vllm

import (
	"context"
	"errors"
	"fmt"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/millrace/millrace/internal/rollout"
)

// Complete samples one completion. req.Timeout bounds it from here to the last byte. The answer
// is fit to be trained on, or there is none: a failure with one of this package's codes.
//
// Only text, tokens, logprobs, model and cached tokens are filled in; who called and when is
// the caller's to add.
func (c *Client) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	if err := check(&req); err != nil {
		return rollout.Completion{}, badRequest(err)
	}
	reqs := []rollout.Request{req}
	said, err := c.complete(ctx, reqs)
	if err != nil {
		return rollout.Completion{}, err
	}
	answers, err := verify(reqs, said)
	if err != nil {
		return rollout.Completion{}, err
	}
	return answers[0].Completion, answers[0].Err
}

// complete makes one call for requests that differ in prompt and seed only.
func (c *Client) complete(ctx context.Context, reqs []rollout.Request) (*answer, error) {
	first := &reqs[0]
	ctx, cancel := context.WithTimeout(ctx, c.timeout(reqs))
	defer cancel()
	call, err := newCall(reqs, c.cfg.IgnoreEOS)
	if err != nil {
		return nil, badRequest(err)
	}
	body := openai.CompletionRequest{
		Model:     first.Model,
		Prompt:    first.Prompt,
		MaxTokens: first.Sampling.MaxTokens,
		Stop:      first.Stop,
		// The sampling fields go through the call: here a zero would be left out, and floats are rounded.
	}
	if len(reqs) == 1 {
		seed := int(first.Seed)
		body.Seed = &seed
	} else {
		prompts := make([]string, len(reqs))
		for i := range reqs {
			prompts[i] = reqs[i].Prompt
		}
		body.Prompt = prompts
	}
	_, err = c.openai.CreateCompletion(call.in(ctx), body)
	if errors.Is(err, openai.ErrCompletionUnsupportedModel) {
		return nil, badRequest(fmt.Errorf("model %q: the name is one of OpenAI's; serve the model under "+
			"another", first.Model))
	}
	if err != nil {
		return nil, failure(ctx, "completion", err)
	}
	return &call.answer, nil
}

// timeout is the longest that any of the requests allows.
func (c *Client) timeout(reqs []rollout.Request) time.Duration {
	longest := time.Duration(0)
	for i := range reqs {
		timeout := reqs[i].Timeout.Std()
		setDefault(&timeout, c.cfg.CompletionTimeout)
		longest = max(longest, timeout)
	}
	return longest
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
