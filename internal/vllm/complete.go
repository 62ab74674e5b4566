package vllm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
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
	resp, raw, err := c.complete(ctx, []rollout.Request{req})
	if err != nil {
		return rollout.Completion{}, err
	}
	answers, err := completions([]rollout.Request{req}, resp, raw)
	if err != nil {
		return rollout.Completion{}, err
	}
	return answers[0].Completion, answers[0].Err
}

// complete makes one call for requests that differ in prompt and seed only.
func (c *Client) complete(ctx context.Context, reqs []rollout.Request) (*openai.CompletionResponse, *answer, error) {
	first := &reqs[0]
	ctx, cancel := context.WithTimeout(ctx, c.timeout(reqs))
	defer cancel()
	call, err := newCall(first)
	if err != nil {
		return nil, nil, badRequest(err)
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
	resp, err := c.openai.CreateCompletion(call.in(ctx), body)
	if errors.Is(err, openai.ErrCompletionUnsupportedModel) {
		return nil, nil, badRequest(fmt.Errorf("model %q: the name is one of OpenAI's; serve the model under another", first.Model))
	}
	if err != nil {
		return nil, nil, failure(ctx, "completion", err)
	}
	return &resp, &call.answer, nil
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

func badRequest(err error) error {
	return rollout.Fail(rollout.Permanent, BadRequest, fmt.Errorf("completion: %w", err))
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

// completions joins what go-openai read with what it drops, and trusts neither: one choice for each prompt, by index.
func completions(reqs []rollout.Request, resp *openai.CompletionResponse, raw *answer) ([]Answer, error) {
	if asked := reqs[0].Model; resp.Model != asked {
		return nil, rollout.Fail(rollout.Retryable, WrongModel, fmt.Errorf("completion: asked %q, answered by %q", asked, resp.Model))
	}
	if len(resp.Choices) != len(reqs) || len(raw.Choices) != len(reqs) {
		return nil, badAnswer("%d choices for %d prompts", len(resp.Choices), len(reqs))
	}
	answers := make([]Answer, len(reqs))
	given := make([]bool, len(reqs))
	for i := range resp.Choices {
		at := resp.Choices[i].Index
		if at < 0 || at >= len(reqs) || given[at] {
			return nil, badAnswer("choice %d of %d has index %d", i, len(reqs), at)
		}
		given[at] = true
		c, err := completion(&resp.Choices[i], &raw.Choices[i])
		if err != nil {
			answers[at].Err = err
			continue
		}
		c.Model, c.CachedTokens = resp.Model, cachedTokens(resp.Usage, len(reqs))
		answers[at].Completion = c
	}
	return answers, nil
}

// cachedTokens is the prompt tokens of one request that were found in the prefix cache; -1 if the answer does not tell. It
// counts them for the whole call: with several prompts, only none at all can be told of each.
func cachedTokens(usage *openai.Usage, prompts int) int {
	if usage == nil || usage.PromptTokensDetails == nil {
		return -1
	}
	cached := usage.PromptTokensDetails.CachedTokens
	if prompts > 1 && cached > 0 {
		return -1
	}
	return cached
}

// completion is one choice, if it is a finished turn that can be trained on.
func completion(choice *openai.CompletionChoice, more *rawChoice) (rollout.Completion, error) {
	switch choice.FinishReason {
	case rollout.FinishStop, rollout.FinishLength:
	case "abort":
		return rollout.Completion{}, rollout.Fail(rollout.Retryable, Aborted, errors.New("completion: aborted in the engine"))
	default:
		return rollout.Completion{}, badAnswer("finish reason %q is not a finished turn", choice.FinishReason)
	}
	logprobs, err := more.logprobs()
	if err != nil {
		return rollout.Completion{}, err
	}
	return rollout.Completion{
		Text:           choice.Text,
		PromptTokenIDs: more.PromptTokenIDs,
		TokenIDs:       more.TokenIDs,
		Logprobs:       logprobs,
		FinishReason:   choice.FinishReason,
	}, nil
}

// logprobs checks that the choice can be trained on and returns its log-probabilities.
func (c *rawChoice) logprobs() ([]float32, error) {
	switch {
	case len(c.PromptTokenIDs) == 0 || len(c.TokenIDs) == 0:
		return nil, badAnswer("%d prompt and %d completion token ids: does the engine know return_token_ids?",
			len(c.PromptTokenIDs), len(c.TokenIDs))
	case slices.Min(c.PromptTokenIDs) < 0 || slices.Min(c.TokenIDs) < 0:
		return nil, badAnswer("a negative token id")
	case c.Logprobs == nil:
		return nil, badAnswer("no logprobs")
	case len(c.Logprobs.TokenLogprobs) != len(c.TokenIDs):
		return nil, badAnswer("%d token ids but %d logprobs", len(c.TokenIDs), len(c.Logprobs.TokenLogprobs))
	}
	out := make([]float32, len(c.TokenIDs))
	for i, lp := range c.Logprobs.TokenLogprobs {
		if v := float64(lp); math.IsNaN(v) || v > maxLogprob {
			return nil, badAnswer("logprob %d of %d is %v", i, len(out), v)
		}
		out[i] = float32(lp)
	}
	return out, nil
}

// maxLogprob allows for the rounding of a log-softmax in half precision; a true one is at most 0.
const maxLogprob = 1e-2

func badAnswer(format string, args ...any) error {
	return rollout.Fail(rollout.Retryable, BadAnswer, fmt.Errorf("completion: "+format, args...))
}
