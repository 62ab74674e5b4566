package vllm

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/millrace/millrace/internal/rollout"
)

// maxScoreBytes bounds an answer with the logprobs of a few thousand tokens.
const maxScoreBytes = 4 << 20

// Score answers the logprobs that a model gives to tokens, from the second on: each given those before it, in nats, at
// temperature 1. The engine generates one token that is not looked at.
func (c *Client) Score(ctx context.Context, model string, tokens []int32) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CompletionTimeout)
	defer cancel()
	text, err := c.post(ctx, "/v1/completions", map[string]any{"model": model, "prompt": tokens, "max_tokens": 1,
		"prompt_logprobs": 1, "temperature": 0}, maxScoreBytes)
	if err != nil {
		return nil, failure(ctx, "score", err)
	}
	var answer struct {
		Model   string `json:"model"`
		Choices []struct {
			PromptLogprobs []map[string]struct {
				Logprob float64 `json:"logprob"`
			} `json:"prompt_logprobs"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, badScore("%v", unreadable(err))
	}
	if answer.Model != model || len(answer.Choices) != 1 || len(answer.Choices[0].PromptLogprobs) != len(tokens) {
		return nil, badScore("it is not one answer of %s for %d tokens", model, len(tokens))
	}
	logprobs := make([]float64, 0, len(tokens)-1)
	for i, of := range answer.Choices[0].PromptLogprobs[1:] {
		found, told := of[strconv.Itoa(int(tokens[i+1]))]
		if !told || math.IsNaN(found.Logprob) {
			return nil, badScore("token %d has no logprob", i+1)
		}
		logprobs = append(logprobs, found.Logprob)
	}
	return logprobs, nil
}

func badScore(format string, args ...any) error {
	return rollout.Fail(rollout.Retryable, rollout.CodeBadAnswer, fmt.Errorf("logprobs of given tokens: "+format, args...))
}
