package enginesim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// apiError is an answer in vLLM's error shape.
type apiError struct {
	status  int
	kind    string
	param   string
	message string
}

func (e *apiError) Error() string { return e.message }

// The kinds of vLLM's errors.
const (
	kindBadRequest = "BadRequestError"
	kindValidation = "Bad Request"
	kindUserInput  = "InvalidUserInput"
	kindNotFound   = "NotFoundError"
	kindInternal   = "InternalServerError"
	kindOverloaded = "Service Unavailable"
)

// deadText is what vLLM answers while its engine process is gone.
const deadText = "EngineCore encountered an issue. See stack trace (above) for the root cause."

var (
	errDead       = &apiError{status: http.StatusInternalServerError, kind: kindInternal, message: deadText}
	errOverloaded = &apiError{status: http.StatusServiceUnavailable, kind: kindOverloaded,
		message: "The engine is currently busy and cannot accept new requests. Please try again later or on a " +
			"different instance."}
)

// badRequest is a complaint that names a parameter, which vLLM repeats at the end of the text, or none.
func badRequest(param, format string, args ...any) *apiError {
	message := fmt.Sprintf(format, args...)
	if param != "" {
		message += " (parameter=" + param + ")"
	}
	return &apiError{http.StatusBadRequest, kindBadRequest, param, message}
}

// badValue is a complaint about a parameter's value, as Python prints it.
func badValue(param, value, format string, args ...any) *apiError {
	message := fmt.Sprintf(format, args...) + " (parameter=" + param + ", value=" + value + ")"
	return &apiError{http.StatusBadRequest, kindBadRequest, param, message}
}

// validation is FastAPI's complaint about a field, as vLLM words it.
func validation(param, kind, text string) *apiError {
	loc := "'" + strings.ReplaceAll(param, ".", "', '") + "'"
	message := fmt.Sprintf("1 validation error:\n  {'type': '%s', 'loc': (%s), 'msg': '%s'}", kind, loc, text)
	return &apiError{http.StatusBadRequest, kindValidation, param, message}
}

// fail writes err.
func fail(w http.ResponseWriter, err error) { writeJSON(w, known(err).status, errorBody(err)) }

// known is err as vLLM's error. Errors that are not come from an engine that has stopped.
func known(err error) *apiError {
	var e *apiError
	if errors.As(err, &e) {
		return e
	}
	return errDead
}

// errorBody is vLLM's shape of an error.
func errorBody(err error) any {
	e := known(err)
	var param any
	if e.param != "" {
		param = e.param
	}
	return map[string]any{"error": map[string]any{"message": e.message, "type": e.kind, "param": param, "code": e.status}}
}

// detail writes an error of the web framework itself.
func detail(w http.ResponseWriter, status int) {
	writeJSON(w, status, map[string]string{"detail": http.StatusText(status)})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // a client that left is noticed by its context
}
