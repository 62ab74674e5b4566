package onevllm

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
)

// fault is an error in vLLM's shape.
type fault struct {
	status int
	kind   string
	text   string
}

func (f *fault) Error() string { return f.text }

// The kinds of vLLM's errors.
const (
	notFound    = "NotFoundError"
	badRequest  = "BadRequestError"
	userInput   = "InvalidUserInput"
	unavailable = "ServiceUnavailableError"
)

// detail is an error of vLLM's web framework, which knows no such route.
type detail int

func (d detail) Error() string { return http.StatusText(int(d)) }

// refuse answers with an error. What passes, such as a fleet without a ready engine, is a 503 with Retry-After.
func (c *call) refuse(err error) {
	var d detail
	if errors.As(err, &d) {
		write(c.w, int(d), map[string]string{"detail": http.StatusText(int(d))})
		return
	}
	f := faultOf(err)
	if f.status == http.StatusServiceUnavailable {
		c.w.Header().Set("Retry-After", "1")
	}
	if f.status >= http.StatusInternalServerError {
		c.Log.LogAttrs(c.r.Context(), slog.LevelWarn, "call of one vLLM", slog.String("run", string(c.run)),
			slog.String("path", c.r.URL.Path), slog.Any("error", err))
	}
	write(c.w, f.status, f.body())
}

func (f *fault) body() any {
	return map[string]any{"error": map[string]any{"message": f.text, "type": f.kind, "param": nil, "code": f.status}}
}

// faultOf is an error as vLLM would tell it. What is not the client's fault may be asked again.
func faultOf(err error) *fault {
	var f *fault
	var refused *rollout.Refusal
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &refused):
		switch refused.Code {
		case rollout.NoSuchRun, rollout.RunOver:
			return &fault{http.StatusNotFound, notFound, refused.Text}
		case rollout.Invalid, rollout.Conflict, rollout.OutOfOrder:
			return &fault{http.StatusBadRequest, userInput, refused.Text}
		}
		return &fault{http.StatusServiceUnavailable, unavailable, refused.Text}
	}
	if failed := new(rollout.Failure); errors.As(err, &failed) { // its causes may hold addresses
		return &fault{http.StatusServiceUnavailable, unavailable, "no engine has answered: " + string(failed.Code) +
			"; ask again"}
	}
	return &fault{http.StatusServiceUnavailable, unavailable, "something behind the service does not answer; ask again"}
}

// Refuse answers in vLLM's shape that a call was not let in.
func Refuse(w http.ResponseWriter, status int, text string) {
	f := &fault{status, http.StatusText(status), text}
	write(w, status, f.body())
}

// own is an engine's own refusal of what the client has sent, which goes to the client as it came.
func own(err error) *vllm.StatusError {
	var status *vllm.StatusError
	if !errors.As(err, &status) || len(status.Body) == 0 {
		return nil
	}
	switch rollout.CodeOf(err) {
	case rollout.CodeBadRequest, rollout.CodeEngineError:
		return status
	}
	return nil
}

func write(w http.ResponseWriter, status int, body any) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // a client that has gone needs no answer
}

// say answers in plain text, as vLLM does where it loads and unloads.
func (c *call) say(text string) error {
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = c.w.Write([]byte(text)) // a client that has gone needs no answer
	return nil
}

func (c *call) tell(body any) error {
	write(c.w, http.StatusOK, body)
	return nil
}
