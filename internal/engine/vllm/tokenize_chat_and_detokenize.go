package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
)

// maxTextBytes bounds the text of a prompt: some hundred thousand tokens.
const maxTextBytes = 8 << 20

// Detokenize is the text that token ids stand for, special tokens included, by the engine's own tokenizer. The text may
// hold anything at all.
func (c *Client) Detokenize(ctx context.Context, model string, ids []int32) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ControlTimeout)
	defer cancel()
	if ids == nil {
		ids = []int32{}
	}
	body, err := c.post(ctx, "/detokenize", map[string]any{"model": model, "tokens": ids}, maxTextBytes)
	if err != nil {
		return "", c.wrap(ctx, "POST /detokenize", err)
	}
	var answer struct {
		Prompt *string `json:"prompt"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Prompt == nil {
		return "", rollout.Fail(rollout.Retryable, rollout.CodeBadAnswer,
			errors.New("POST /detokenize: the answer has no prompt"))
	}
	return *answer.Prompt, nil
}

// CountTokens is how many tokens the messages of a request have in the model's chat template.
func (c *Client) CountTokens(ctx context.Context, req *rollout.Request) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ControlTimeout)
	defer cancel()
	ids, err := c.chatTokens(ctx, req)
	return len(ids), err
}

// chatTokens is the prompt that messages are in the model's chat template, by the engine's own tokenizer, up to where
// the model begins to answer.
func (c *Client) chatTokens(ctx context.Context, req *rollout.Request) ([]int32, error) {
	asked := map[string]any{"model": req.Model, "messages": req.Messages, "add_generation_prompt": true}
	if len(req.Tools) > 0 {
		asked["tools"] = req.Tools
	}
	body, err := c.post(ctx, "/tokenize", asked, wireBase+wirePerPromptToken*int64(mostPromptTokens(req)))
	if err != nil {
		return nil, c.wrap(ctx, "POST /tokenize", err)
	}
	var answer struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.Tokens) == 0 {
		return nil, rollout.Fail(rollout.Retryable, rollout.CodeBadAnswer,
			fmt.Errorf("POST /tokenize: the answer to %d messages has no tokens", len(req.Messages)))
	}
	return answer.Tokens, nil
}
