package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Codes of the rollout.Failures that a Client returns.
const (
	EngineGone   = "engine_gone"   // no connection, or it broke before an answer came
	EngineDead   = "engine_dead"   // EngineCore is gone; the process will follow
	EngineError  = "engine_error"  // any other 5xx
	Overloaded   = "overloaded"    // 429 or 503: slow down; not a fault
	Timeout      = "timeout"       // the total deadline passed
	Cancelled    = "cancelled"     // by the caller
	UnknownModel = "unknown_model" // 404: typically a restarted engine that lost its adapters
	WrongModel   = "wrong_model"   // answered by another model than asked: silently the base model
	Aborted      = "aborted"       // stopped half-way by a pause or an abort: no sample
	BadAnswer    = "bad_answer"    // incomplete or inconsistent: truncated, no logprobs, odd lengths
	BadRequest   = "bad_request"   // the engine refuses this request, and always will
	Unauthorized = "unauthorized"  // the API key is missing or wrong
	NotAnEngine  = "not_an_engine" // no such route: something else listens there

	LoRADisabled    = "lora_disabled"    // run-time loading of adapters is off
	AdapterMissing  = "adapter_missing"  // nothing to load at the path
	AdapterConflict = "adapter_conflict" // the name serves other weights already
	RankTooHigh     = "rank_too_high"    // above the engine's --max-lora-rank
	BadAdapter      = "bad_adapter"      // the engine cannot serve it: DoRA, bias, a broken config
)

// StatusError is an answer other than 200: the error text of vLLM, in whichever shape it came.
type StatusError struct {
	Status     int
	Message    string
	Type       string        // such as NotFoundError; empty unless vLLM itself answered
	RetryAfter time.Duration // 0: not told
}

// Error is the status and the engine's own words.
func (e *StatusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("status %d", e.Status)
	}
	return fmt.Sprintf("status %d: %s", e.Status, e.Message)
}

// statusError reads an error answer. vLLM sends {"error":{...}}; while it scales, {"error":"..."};
// its framework sends {"detail":...}; a proxy in between may send anything.
func statusError(resp *http.Response) *StatusError {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes)) // what came is what there is to say
	e := &StatusError{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"))}
	var shape struct {
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
	}
	var inner struct {
		Message string `json:"message"`
		Type    string `json:"type"`
	}
	switch {
	case json.Unmarshal(body, &shape) != nil:
		e.Message = strings.TrimSpace(string(body))
	case json.Unmarshal(shape.Error, &inner) == nil:
		e.Message, e.Type = inner.Message, inner.Type
	case json.Unmarshal(shape.Error, &e.Message) == nil:
	case json.Unmarshal(shape.Detail, &e.Message) == nil:
	default:
		e.Message = strings.TrimSpace(string(body))
	}
	const enough = 2000 // of a text that ends in logs and in a workflow's history
	if len(e.Message) > enough {
		e.Message = strings.ToValidUTF8(e.Message[:enough], "") + "..."
	}
	return e
}

// retryAfter reads seconds; dates are not worth a clock here.
func retryAfter(header string) time.Duration {
	sec, err := strconv.ParseFloat(header, 64)
	if err != nil || !(sec >= 0 && sec <= 3600) { // so that NaN, which is in no order, is none either
		return 0
	}
	return time.Duration(sec * float64(time.Second))
}

// failure gives err, which came of a call under ctx, the kind and code it deserves. An error
// that is a Failure already keeps its own.
func failure(ctx context.Context, what string, err error) error {
	var known *rollout.Failure
	if errors.As(err, &known) {
		return err
	}
	err = fmt.Errorf("%s: %w", what, err)
	var status *StatusError
	switch {
	case errors.As(err, &status):
		kind, code := reaction(status)
		return rollout.Fail(kind, code, err)
	case errors.Is(ctx.Err(), context.Canceled):
		return rollout.Fail(rollout.Retryable, Cancelled, err)
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return rollout.Fail(rollout.Retryable, Timeout, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return rollout.Fail(rollout.Retryable, BadAnswer, err)
	default:
		return rollout.Fail(rollout.Retryable, EngineGone, err)
	}
}

// reaction is the meaning of an error answer that every route shares.
func reaction(e *StatusError) (rollout.FailureKind, string) {
	switch {
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable:
		return rollout.Retryable, Overloaded
	case e.Status == http.StatusNotFound && e.Type != "":
		return rollout.Retryable, UnknownModel
	case e.Status == http.StatusNotFound, e.Status == http.StatusMethodNotAllowed, e.Status < 400:
		return rollout.Permanent, NotAnEngine
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return rollout.Permanent, Unauthorized
	case e.Status == http.StatusRequestTimeout:
		return rollout.Retryable, EngineError
	case e.Status < 500:
		return rollout.Permanent, BadRequest
	case strings.Contains(e.Message, "EngineCore"):
		return rollout.Retryable, EngineDead
	default:
		return rollout.Retryable, EngineError
	}
}

// CodeOf is the code of the first Failure in err's chain, or "".
func CodeOf(err error) string {
	var f *rollout.Failure
	if errors.As(err, &f) {
		return f.Code
	}
	return ""
}
