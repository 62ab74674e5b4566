package chatapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/game/specurl"
	"github.com/millrace/millrace/internal/rollout"
)

// question is the body of a call. The API knows one of the two names of an answer's length.
type question struct {
	Model               string            `json:"model"`
	Messages            []rollout.Message `json:"messages"`
	MaxTokens           int               `json:"max_tokens,omitempty"`
	MaxCompletionTokens int               `json:"max_completion_tokens,omitempty"`
}

const newerLength = "max_completion_tokens" // as OpenAI's models that think want it

// answer is what is read of a body, of an answer and of an error.
type answer struct {
	Choices []struct {
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
}

// post asks once, or twice if the API wants the newer name of the length.
func (a *api) post(ctx context.Context, req *rollout.Request) (rollout.Completion, error) {
	q := question{Model: req.Model, Messages: req.Messages, MaxTokens: req.Sampling.MaxTokens}
	if len(q.Messages) == 0 {
		q.Messages = []rollout.Message{{Role: "user", Content: req.Prompt}}
	}
	_, newer := a.newer.Load(req.Model)
	for {
		if newer {
			q.MaxTokens, q.MaxCompletionTokens = 0, req.Sampling.MaxTokens
		}
		status, body, err := a.send(ctx, q)
		if err != nil {
			return rollout.Completion{}, err
		}
		var got answer
		bad := json.Unmarshal(body, &got)
		if status == http.StatusBadRequest && !newer && strings.Contains(got.Error.Message, newerLength) {
			newer = true
			a.newer.Store(req.Model, true)
			continue
		}
		if status != http.StatusOK || got.Error.Message != "" { // proxies tell of their servers' errors with 200
			return rollout.Completion{}, a.refusal(status, got.Error.Message)
		}
		if bad != nil || len(got.Choices) == 0 {
			return rollout.Completion{}, refuses("status 200, and no chat completion: is url the base of a chat API, " +
				"such as https://api.openai.com/v1?")
		}
		c := rollout.Completion{Text: got.Choices[0].Message.Content, Model: req.Model, FinishReason: rollout.FinishStop}
		if got.Choices[0].FinishReason == rollout.FinishLength {
			c.FinishReason = rollout.FinishLength
			if c.Text == "" { // as played it would tell nothing of the model
				return c, refuses("it thought for all of its %d tokens and said nothing: raise the policy's max_tokens",
					req.Sampling.MaxTokens)
			}
		}
		return c, nil
	}
}

// send makes a call, and reads what came back.
func (a *api) send(ctx context.Context, q question) (status int, body []byte, err error) {
	resp, body, err := a.Post(ctx, "/chat/completions", q)
	var denied *rollout.Failure
	var unheard *specurl.Unheard
	switch {
	case errors.As(err, &denied):
		return 0, nil, denied
	case errors.As(err, &unheard):
		return 0, nil, unavailable(unheard)
	case err != nil:
		return 0, nil, refuses("%v", err)
	}
	// A date is not worth a clock here.
	sec, err := strconv.ParseFloat(resp.Header.Get("Retry-After"), 64)
	if err == nil && sec > 0 && specurl.Waits(resp.StatusCode) {
		rest := time.Duration(min(sec, mostRest.Seconds()) * float64(time.Second))
		a.rests.Store(time.Now().Add(rest).UnixNano())
	}
	return resp.StatusCode, body, nil
}

// refusal is an answer other than 200. What is said of a key is not repeated: it may be the key.
func (a *api) refusal(status int, message string) error {
	key := a.Key()
	if key != "" {
		message = strings.ReplaceAll(message, key, "...")
	}
	said := fmt.Sprintf("status %d", status)
	if message != "" {
		said += fmt.Sprintf(": %.300q", message)
	}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		if key == "" {
			return refuses("status %d: no key is meant for it: give it a line, its URL and its key, in engine_urls.keys_file "+
				"of the workers", status)
		}
		return refuses("status %d: it refuses the key that engine_urls.keys_file of the workers has for it", status)
	case specurl.Waits(status):
		return unavailable(errors.New(said))
	case status == http.StatusNotFound:
		return refuses("%s; is url the base of the API, such as https://api.openai.com/v1, and has it the model?", said)
	}
	return refuses("%s", said)
}

func refuses(format string, args ...any) error {
	return rollout.Fail(rollout.Permanent, rollout.CodePolicyRefuses, fmt.Errorf(format, args...))
}

func unavailable(err error) error {
	return rollout.Fail(rollout.Retryable, rollout.CodePolicyUnavailable, err)
}

// causeOf is what the log is told; nil: the API has answered, if only to refuse.
func causeOf(err error) error {
	var silent *specurl.Unheard
	if errors.As(err, &silent) {
		return silent.Cause
	}
	return nil
}
