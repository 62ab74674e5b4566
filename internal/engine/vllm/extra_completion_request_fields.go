package vllm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/millrace/millrace/internal/rollout"
)

// callKey finds the call in a request's context: go-openai hands the context through, and nothing else.
type callKey struct{}

// call is one completion on its way through the transport.
type call struct {
	id     string
	fields []byte  // a JSON object
	prompt []int32 // sent instead of the request's text, unless it is nil
	limit  int64   // of the answer, in bytes
	answer answer
}

// fields are those that go-openai's CompletionRequest lacks, or omits when zero. Every setting that a model
// repository's generation_config could override is sent.
type fields struct {
	Temperature       float64     `json:"temperature"`
	TopP              float64     `json:"top_p"`
	TopK              int         `json:"top_k"`
	MinP              float64     `json:"min_p"`
	RepetitionPenalty float64     `json:"repetition_penalty"`
	Logprobs          int         `json:"logprobs"` // 0: of the sampled token only
	ReturnTokenIDs    bool        `json:"return_token_ids"`
	IgnoreEOS         bool        `json:"ignore_eos,omitempty"`
	StructuredOutputs *constraint `json:"structured_outputs,omitempty"`
}

// constraint has exactly one field set.
type constraint struct {
	Regex   string   `json:"regex,omitempty"`
	Choice  []string `json:"choice,omitempty"`
	Grammar string   `json:"grammar,omitempty"`
}

func newCall(req *rollout.Request, ignoreEOS bool) (*call, error) {
	f := fields{
		Temperature:       req.Sampling.Temperature,
		TopP:              req.Sampling.TopP,
		TopK:              req.Sampling.TopK,
		RepetitionPenalty: 1,
		ReturnTokenIDs:    true,
		IgnoreEOS:         ignoreEOS,
	}
	if f.TopP == 0 {
		f.TopP = 1 // the zero value means all of the distribution
	}
	if f.TopK == 0 {
		f.TopK = -1 // all tokens, in the notation that every version accepts
	}
	var err error
	if f.StructuredOutputs, err = constraintOf(req.Constraint); err != nil {
		return nil, err
	}
	b, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	return &call{id: req.ID, fields: b, limit: answerLimit(req)}, nil
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

func (c *call) in(ctx context.Context) context.Context { return context.WithValue(ctx, callKey{}, c) }

// extend appends the call's fields to the JSON object in req's body.
func (c *call) extend(req *http.Request) error {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	body = bytes.TrimRight(body, " \n")
	if len(body) < 3 || body[len(body)-1] != '}' {
		return fmt.Errorf("request body is not a JSON object with fields")
	}
	if c.prompt != nil { // go-openai sends text only
		ids, err := json.Marshal(c.prompt)
		if err != nil {
			return err
		}
		body = bytes.Replace(body, []byte(`"prompt":""`), append([]byte(`"prompt":`), ids...), 1)
	}
	joined := make([]byte, 0, len(body)+len(c.fields))
	joined = append(joined, body[:len(body)-1]...)
	joined = append(joined, ',')
	joined = append(joined, c.fields[1:]...)

	req.ContentLength = int64(len(joined))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(joined)), nil }
	req.Body, _ = req.GetBody()
	if c.id != "" {
		req.Header.Set("X-Request-Id", c.id)
	}
	// Lets the transport repeat the request on a fresh connection when a kept-alive one turns out to be closed before
	// any byte of the answer. The first answer is lost, so nothing is sampled twice. Without a value the header itself
	// is not sent.
	req.Header["X-Idempotency-Key"] = nil
	return nil
}
