package vllm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/millrace/millrace/internal/rollout"
)

// body is a completion's request. All that a model repository's generation_config may set is said outright.
type body struct {
	Model             string      `json:"model"`
	Prompt            string      `json:"prompt"`
	MaxTokens         int         `json:"max_tokens"`
	Stop              []string    `json:"stop,omitempty"`
	Seed              int64       `json:"seed"`
	Temperature       float64     `json:"temperature"`
	TopP              float64     `json:"top_p"`
	TopK              int         `json:"top_k"`
	MinP              float64     `json:"min_p"`
	RepetitionPenalty float64     `json:"repetition_penalty"`
	Logprobs          int         `json:"logprobs"` // 0: of the sampled token only
	ReturnTokenIDs    bool        `json:"return_token_ids"`
	Stream            bool        `json:"stream"`
	IgnoreEOS         bool        `json:"ignore_eos,omitempty"`
	StructuredOutputs *constraint `json:"structured_outputs,omitempty"`
}

// constraint has exactly one field set.
type constraint struct {
	Regex   string   `json:"regex,omitempty"`
	Choice  []string `json:"choice,omitempty"`
	Grammar string   `json:"grammar,omitempty"`
}

// newRequest is the HTTP request of a completion.
func (c *Client) newRequest(ctx context.Context, req *rollout.Request) (*http.Request, error) {
	b := body{
		Model: req.Model, Prompt: req.Prompt, MaxTokens: req.Sampling.MaxTokens, Stop: req.Stop, Seed: int64(req.Seed),
		Temperature: req.Sampling.Temperature, TopP: req.Sampling.TopP, TopK: req.Sampling.TopK, RepetitionPenalty: 1,
		ReturnTokenIDs: true, IgnoreEOS: c.cfg.IgnoreEOS,
	}
	if b.TopP == 0 {
		b.TopP = 1 // the zero value means all of the distribution
	}
	if b.TopK == 0 {
		b.TopK = -1 // all tokens, in the notation that every version accepts
	}
	var err error
	if b.StructuredOutputs, err = constraintOf(req.Constraint); err != nil {
		return nil, err
	}
	post, err := c.newPost(ctx, "/v1/completions", b)
	if err != nil {
		return nil, err
	}
	if req.ID != "" {
		post.Header.Set("X-Request-Id", req.ID)
	}
	// Lets the transport repeat the request on a fresh connection when a kept-alive one turns out to be
	// closed before any byte of the answer; the lost answer is nobody's, so nothing is sampled
	// twice. With no value the header itself is not sent.
	post.Header["X-Idempotency-Key"] = nil
	if c.cfg.Headers != nil {
		c.cfg.Headers(ctx, post.Header)
	}
	return post, nil
}

func constraintOf(c rollout.Constraint) (*constraint, error) {
	switch {
	case c.Kind == rollout.Unconstrained:
		return nil, nil
	case c.Kind == rollout.ChoiceConstraint && len(c.Choices) > 0:
		return &constraint{Choice: c.Choices}, nil
	case c.Kind == rollout.RegexConstraint && c.Pattern != "":
		return &constraint{Regex: c.Pattern}, nil
	case c.Kind == rollout.GrammarConstraint && c.Pattern != "":
		return &constraint{Grammar: c.Pattern}, nil
	}
	return nil, fmt.Errorf("constraint %q is unknown or empty: the engine would not constrain anything", c.Kind)
}

// readAnswer takes an answer in. However much an engine sends, and to however many requests at once, no more of it is
// held than its room; a good answer says its length, and takes no more room than that.
func (c *Client) readAnswer(ctx context.Context, into *answer, resp *http.Response, limit int64) error {
	if resp.ContentLength > limit {
		return badAnswer("%d bytes; %d are enough for what was asked", resp.ContentLength, limit)
	}
	size := limit
	if resp.ContentLength >= 0 {
		size = resp.ContentLength
	}
	if err := c.room.Acquire(ctx, size); err != nil {
		return err
	}
	defer c.room.Release(size)
	buffer := bodies.Get().(*bytes.Buffer)
	defer keepBody(buffer)
	buffer.Reset()
	if _, err := buffer.ReadFrom(io.LimitReader(resp.Body, limit+1)); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if int64(buffer.Len()) > limit {
		return badAnswer("more than %d bytes, which are enough for what was asked", limit)
	}
	if err := json.Unmarshal(buffer.Bytes(), into); err != nil {
		return badAnswer("%w", unreadable(err))
	}
	return nil
}

// bodies are buffers for answers: nothing of an answer's bytes is kept when it has been read.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keepBody keeps a buffer for the next answer, unless this one was much larger than answers are.
func keepBody(b *bytes.Buffer) {
	const most = 256 << 10
	if b.Cap() <= most {
		bodies.Put(b)
	}
}
