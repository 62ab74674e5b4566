package vllm

import (
	"errors"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// Bounds that every real model keeps.
const (
	// maxVocabulary is above every tokenizer in use: a quarter of a million tokens are many. A run may set its own
	// model's.
	maxVocabulary = 1 << 20
	// maxLogprob allows for the rounding of a log-softmax in half precision; a true one is at most 0.
	maxLogprob = 1e-2
	// minLogprob is what vLLM writes for minus infinity. It never writes less.
	minLogprob = -9999
	// The most bytes of a token, on the mean of a completion or prompt; the longest of real ones are runs of 128
	// spaces.
	maxTokenBytes = 256
	slackBytes    = 1024
)

// mostPromptTokens is an upper bound of a prompt's tokens: one per byte, and some at the ends; a chat template adds
// some to each message, and may begin with a page of its own.
func mostPromptTokens(req *rollout.Request) int {
	most := 2*len(req.Prompt) + 64
	if len(req.Messages) > 0 {
		most += 8 << 10
	}
	for _, m := range req.Messages {
		most += 2*(len(m.Content)+len(m.ToolCalls)) + 64
	}
	most += 4 * len(req.Tools) // as JSON of another layout
	return most
}

// verify holds an answer against its request: a finished turn that can be trained on and that the request allows. What
// it cannot hold is whether the text is that of the token ids, or the ids those of the prompt: only the engine has the
// tokenizer.
//
// A prompt that was sent as token ids must have come back.
func (a *answer) verify(req *rollout.Request, sent []int32) (rollout.Completion, error) {
	if a.Model != req.Model {
		return rollout.Completion{}, rollout.Fail(rollout.Retryable, rollout.CodeWrongModel,
			fmt.Errorf("completion: asked %q, answered by %s", req.Model, abridged(a.Model)))
	}
	if len(a.Choices) != 1 || a.Choices[0].Index != 0 {
		return rollout.Completion{}, badAnswer("%d choices for a prompt, or one of another", len(a.Choices))
	}
	choice := &a.Choices[0]
	if err := a.Usage.verify(choice); err != nil {
		return rollout.Completion{}, err
	}
	if err := choice.verify(req); err != nil {
		return rollout.Completion{}, err
	}
	if sent != nil && !slices.Equal(sent, choice.PromptTokenIDs) {
		return rollout.Completion{}, badAnswer("%d prompt token ids that are not the %d that were sent",
			len(choice.PromptTokenIDs), len(sent))
	}
	return choice.completion(a.Model, a.Usage.cached()), nil
}

// verify compares what the engine counted, if it tells, with what came.
func (u *usage) verify(c *choice) error {
	if u == nil {
		return nil
	}
	prompt, completion := int64(len(c.PromptTokenIDs)), int64(len(c.TokenIDs))
	if u.Prompt != prompt || u.Completion != completion {
		return badAnswer("usage is %d and %d tokens, but %d and %d token ids came",
			u.Prompt, u.Completion, prompt, completion)
	}
	return nil
}

// cached is the prompt tokens that were found in the prefix cache; -1 if the answer does not tell.
func (u *usage) cached() int {
	if u == nil || u.Cached == nil || *u.Cached < 0 || *u.Cached > u.Prompt {
		return -1
	}
	return int(*u.Cached)
}

// verify holds one choice against the request that it answers.
func (c *choice) verify(req *rollout.Request) error {
	switch c.FinishReason {
	case rollout.FinishStop, rollout.FinishLength:
		// Length comes before max_tokens when the model's context is full.
	case "abort":
		return rollout.Fail(rollout.Retryable, rollout.CodeAborted, errors.New("completion: aborted in the engine"))
	default:
		return badAnswer("finish reason %s is not a finished turn", abridged(c.FinishReason))
	}
	tokens, prompt := len(c.TokenIDs), len(c.PromptTokenIDs)
	switch {
	case tokens == 0 || prompt == 0:
		return badAnswer("%d prompt and %d completion token ids: does the engine know return_token_ids?",
			prompt, tokens)
	case tokens > req.Sampling.MaxTokens:
		return badAnswer("%d tokens, but max_tokens was %d", tokens, req.Sampling.MaxTokens)
	case prompt > mostPromptTokens(req), len(req.Prompt) > slackBytes+maxTokenBytes*prompt:
		return badAnswer("%d prompt tokens of a prompt of %d bytes in %d messages", prompt, len(req.Prompt),
			len(req.Messages))
	case c.Logprobs == nil:
		return badAnswer("no logprobs")
	case len(c.Logprobs) != tokens:
		return badAnswer("%d token ids but %d logprobs", tokens, len(c.Logprobs))
	case c.Text == nil:
		return badAnswer("no text")
	case len(*c.Text) > slackBytes+maxTokenBytes*tokens:
		return badAnswer("%d bytes of text in %d tokens", len(*c.Text), tokens)
	case !c.chosen(req):
		return badAnswer("text that is none of the %d choices", len(req.Constraint.Choices))
	}
	return c.known(req.Sampling.Vocabulary)
}

// chosen reports whether the text is one that a choice constraint allows. Stop texts cut it anywhere, and so does
// max_tokens; other constraints are the environment's to judge.
func (c *choice) chosen(req *rollout.Request) bool {
	cut := len(req.Stop) > 0 || c.FinishReason != rollout.FinishStop
	return req.Constraint.Kind != rollout.ChoiceConstraint || cut || slices.Contains(req.Constraint.Choices, *c.Text)
}

// known holds the ids against the vocabulary: the bound of every model, and the run's own if it told one. What is only
// outside the latter may be the run's mistake, and is not held against the engine unless others answer better.
func (c *choice) known(vocabulary int) error {
	highest := max(slices.Max(c.TokenIDs), slices.Max(c.PromptTokenIDs))
	switch {
	case highest >= maxVocabulary:
		return badAnswer("token id %d; no model has %d tokens", highest, maxVocabulary)
	case vocabulary > 0 && int(highest) >= vocabulary:
		return rollout.Fail(rollout.Permanent, rollout.CodeBadRequest,
			fmt.Errorf("completion: token id %d is outside sampling.vocabulary, which is %d", highest, vocabulary))
	}
	return nil
}

func (c *choice) completion(model string, cached int) rollout.Completion {
	return rollout.Completion{
		Text:           *c.Text,
		PromptTokenIDs: c.PromptTokenIDs,
		TokenIDs:       c.TokenIDs,
		Logprobs:       c.Logprobs,
		FinishReason:   c.FinishReason,
		Model:          model,
		CachedTokens:   cached,
	}
}

func badAnswer(format string, args ...any) error {
	return rollout.Fail(rollout.Retryable, rollout.CodeBadAnswer, fmt.Errorf("completion: "+format, args...))
}
