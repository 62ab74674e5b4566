package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/millrace/millrace/internal/rollout"
)

// StatusError is an answer other than 200. Its message is vLLM's own words, cleaned and short. It is empty if the
// answer is not in vLLM's shape, or the address is not yet known to be an engine: anybody could have written it.
type StatusError struct {
	Status     int
	Message    string
	Type       string        // such as NotFoundError; empty unless vLLM itself answered
	RetryAfter time.Duration // 0: not told
	Body       []byte        // as it came, as far as it was read: for who hands calls on, and for no log
}

// Error is the status and the engine's own words.
func (e *StatusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("status %d", e.Status)
	}
	return fmt.Sprintf("status %d: %s", e.Status, e.Message)
}

// coreTrouble is in every error of a dying engine.
const coreTrouble = "EngineCore"

// statusError reads an error answer. vLLM sends {"error":{"message","type","code"}}. While it scales, its framework,
// and proxies in between send other things, of which the status says enough. GET routes are the first calls to an
// address, so nothing of their errors is quoted.
func statusError(req *http.Request, resp *http.Response) *StatusError {
	e := &StatusError{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"))}
	if resp.StatusCode == http.StatusUnauthorized && req.Header.Get("Authorization") == "" {
		e.Message = "it wants an API key, and none is meant for this address; engine_urls.keys_file or " +
			"engine_urls.allow gives it one"
		return e
	}
	e.Body, _ = io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes)) // a partial body is good enough
	var shape struct {
		Error struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Code    int    `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(e.Body, &shape) != nil || shape.Error.Code != resp.StatusCode || shape.Error.Type == "" {
		return e
	}
	e.Type, e.Message = cleaned(shape.Error.Type, 64), cleaned(shape.Error.Message, 500)
	if req.Method == http.MethodGet {
		e.Message = ""
		if strings.Contains(shape.Error.Message, coreTrouble) {
			e.Message = coreTrouble + " encountered an issue"
		}
	}
	return e
}

// cleaned is a foreign text without what could move a cursor or end a line, and not longer than most bytes.
func cleaned(text string, most int) string {
	cut := len(text) > most
	if cut {
		text = text[:most]
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case r == unicode.ReplacementChar:
			return -1
		case !unicode.IsPrint(r):
			return ' '
		}
		return r
	}, text)
	if cut {
		text += "..."
	}
	return text
}

// abridged is a foreign text as it may be put into an error or a log: quoted, and short.
func abridged(text string) string {
	const enough = 80
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "") + "..."
	}
	return strconv.Quote(text)
}

// retryAfter reads seconds; dates are not worth a clock here.
func retryAfter(header string) time.Duration {
	sec, err := strconv.ParseFloat(header, 64)
	if err != nil || !(sec >= 0 && sec <= 3600) { // the negation also refuses NaN
		return 0
	}
	return time.Duration(sec * float64(time.Second))
}

// failure wraps err, from a call under ctx, with its kind and code. An error that is a Failure already keeps its own.
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
		return rollout.Fail(rollout.Retryable, rollout.CodeCancelled, err)
	case ctx.Err() != nil:
		return rollout.Fail(rollout.Retryable, rollout.CodeTimeout, &noAnswer{what + ": no answer in time", err})
	case unconnected(err):
		return rollout.Fail(rollout.Retryable, rollout.CodeEngineGone, &noAnswer{what + ": no answer", err})
	case errors.Is(err, context.DeadlineExceeded):
		return rollout.Fail(rollout.Retryable, rollout.CodeTimeout, &noAnswer{what + ": no answer in time", err})
	case errors.Is(err, io.ErrUnexpectedEOF):
		return rollout.Fail(rollout.Retryable, rollout.CodeBadAnswer, &noAnswer{what + ": the answer ends early", err})
	default:
		return rollout.Fail(rollout.Retryable, rollout.CodeEngineGone, &noAnswer{what + ": no answer", err})
	}
}

// noAnswer is the public error of a call without an answer. The cause would reveal whether nothing listens there,
// something else does, the name is unknown or packets are dropped. A user who may name an address must not explore
// networks with it.
type noAnswer struct {
	text  string
	cause error
}

func (e *noAnswer) Error() string { return e.text }
func (e *noAnswer) Unwrap() error { return e.cause }

// Detail is err with the cause that its text keeps back, for the log of the process that made the call.
func Detail(err error) string {
	var silent *noAnswer
	if errors.As(err, &silent) {
		return cleaned(silent.cause.Error(), 500)
	}
	return err.Error()
}

// unconnected reports whether a call failed before it reached the engine, however long that took: a dialer's patience
// is no deadline of the request.
func unconnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// reaction is the meaning of an error answer that every route shares.
func reaction(e *StatusError) (rollout.FailureKind, rollout.Code) {
	switch {
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable:
		return rollout.Retryable, rollout.CodeOverloaded
	case e.Status == http.StatusNotFound && e.Type != "":
		return rollout.Retryable, rollout.CodeUnknownModel
	case e.Status == http.StatusNotFound, e.Status == http.StatusMethodNotAllowed, e.Status < 400:
		return rollout.Permanent, rollout.CodeNotAnEngine
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return rollout.Permanent, rollout.CodeUnauthorized
	case e.Status == http.StatusRequestTimeout:
		return rollout.Retryable, rollout.CodeEngineError
	case e.Status < 500:
		return rollout.Permanent, rollout.CodeBadRequest
	case strings.Contains(e.Message, coreTrouble):
		return rollout.Retryable, rollout.CodeEngineDead
	default:
		return rollout.Retryable, rollout.CodeEngineError
	}
}
