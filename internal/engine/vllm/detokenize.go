package vllm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

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
	b, err := json.Marshal(map[string]any{"model": model, "tokens": ids})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.root+"/detokenize", bytes.NewReader(b))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	body, err := c.do(req, maxTextBytes)
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
