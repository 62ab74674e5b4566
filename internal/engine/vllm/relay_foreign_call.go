package vllm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// Relayed is a call that somebody else wrote, for any vLLM: it goes to an engine as it is, and its answer goes back as
// it comes. Only the model is another one there, and the answer must be by that model.
type Relayed struct {
	Path   string
	Header http.Header // sent beside our own
	Body   []byte      // JSON, with the engine's name of the model
	Model  string      // that name
	Named  string      // the sender's name of the model, which the answer gets
	// Event takes the events of a stream, each one line of JSON, but for the last, [DONE]; nil: the answer is a document.
	Event func(data []byte) error
	// Rewrite, if set, changes the document, or each event.
	Rewrite func([]byte) ([]byte, error)
	// Usage says that the sender wants the usage of a stream, which is asked for in any case.
	Usage bool

	// Answer is the document.
	Answer []byte
	begun  bool // events have been handed on: the call cannot be made again
}

// Begun reports whether a part of the answer is at the sender's.
func (r *Relayed) Begun() bool { return r.begun }

// Relay makes a call on behalf of somebody else. Beside this package's failures, an engine's own refusal is a
// StatusError with its Body. The completion has its model and what it cost, and nothing else.
func (c *Client) Relay(ctx context.Context, r *Relayed) (rollout.Completion, error) {
	if r.begun {
		return rollout.Completion{}, badRequest(errors.New("the stream broke off, and cannot begin again"))
	}
	cost, err := c.relay(ctx, r)
	if err != nil {
		return rollout.Completion{}, failure(ctx, r.Path, err)
	}
	return rollout.Completion{Model: r.Model, Counted: cost}, nil
}

func (c *Client) relay(ctx context.Context, r *Relayed) (*rollout.Usage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.root+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	for name, values := range r.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	if c.cfg.Headers != nil {
		c.cfg.Headers(ctx, req.Header)
	}
	resp, err := c.send(req)
	var refused *StatusError
	switch {
	case errors.As(err, &refused) && (refused.Status == http.StatusNotFound && refused.Type == "" ||
		refused.Status == http.StatusMethodNotAllowed):
		return nil, rollout.Fail(rollout.Permanent, rollout.CodeBadRequest, refused) // the sender chose the route
	case err != nil:
		return nil, err
	}
	defer resp.Body.Close()
	if r.Event != nil {
		return r.stream(resp.Body)
	}
	var cost rollout.Usage
	err = readAnswer(ctx, c.room, resp, maxAnswerBytes, func(body []byte) error {
		part, err := r.read(body)
		if err != nil {
			return err
		}
		cost = part.cost
		r.Answer, err = r.rewritten(part)
		return err
	})
	return &cost, err
}

// stream hands events on. What fails before the first one may be tried elsewhere.
func (r *Relayed) stream(body io.Reader) (*rollout.Usage, error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxAnswerBytes)
	cost := rollout.Usage{Requests: 1}
	for lines.Scan() {
		data, is := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !is {
			continue
		}
		if data = bytes.TrimSpace(data); string(data) == "[DONE]" {
			return &cost, nil
		}
		part, err := r.read(data)
		if err != nil {
			return nil, err
		}
		if part.cost.InputTokens > 0 {
			cost = part.cost
		}
		if part.choices == 0 && !r.Usage {
			continue // the usage that only we have asked for
		}
		r.begun = true
		event, err := r.rewritten(part)
		if err != nil {
			return nil, err
		}
		if err := r.Event(event); err != nil {
			return nil, err
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, badAnswer("the stream has no end")
}

// relayedPart is an answer, or an event of one.
type relayedPart struct {
	named   []byte // with the sender's name of the model
	cost    rollout.Usage
	choices int
}

// read looks at what is judged of an answer that is handed on: that it is whole, by the model, and not cut off by the
// engine's own accord. It keeps nothing of body.
func (r *Relayed) read(body []byte) (relayedPart, error) {
	part := relayedPart{cost: rollout.Usage{Requests: 1}}
	var model, fault string
	from, to := 0, 0
	reader := &jsonReader{text: body}
	reader.object(func(key []byte) {
		switch string(key) {
		case "model":
			reader.peek()
			from = reader.at
			model = reader.string()
			to = reader.at
		case "usage":
			if u := readUsage(reader); u != nil {
				part.cost.InputTokens, part.cost.OutputTokens = u.Prompt, u.Completion
				if u.Cached != nil {
					part.cost.CachedTokens = *u.Cached
				}
			}
		case "choices":
			reader.list(func() {
				part.choices++
				reader.object(func(key []byte) {
					if string(key) != "finish_reason" {
						reader.skip()
					} else if reader.string() == "abort" {
						fault = "abort"
					}
				})
			})
		case "error":
			if !reader.null() { // which those before a vLLM may add to every answer
				fault = "error"
				reader.skip()
			}
		default:
			reader.skip()
		}
	})
	if err := reader.end(); err != nil {
		return part, badAnswer("%w", unreadable(err))
	}
	switch {
	case fault == "error":
		return part, rollout.Fail(rollout.Retryable, rollout.CodeEngineError, errors.New("an error in the stream"))
	case fault == "abort":
		return part, rollout.Fail(rollout.Retryable, rollout.CodeAborted, errors.New("the engine aborted it"))
	case to == 0: // an engine that names no model, as older ones' /inference/v1/generate
		part.named = bytes.Clone(body)
		return part, nil
	case model != r.Model:
		return part, rollout.Fail(rollout.Retryable, rollout.CodeWrongModel,
			fmt.Errorf("by model %s, and not %s", abridged(model), r.Model))
	}
	name, err := json.Marshal(r.Named)
	if err != nil {
		return part, err
	}
	part.named = slices.Concat(body[:from], name, body[to:])
	return part, nil
}

// rewritten is what the sender gets.
func (r *Relayed) rewritten(part relayedPart) ([]byte, error) {
	if r.Rewrite == nil {
		return part.named, nil
	}
	return r.Rewrite(part.named)
}
