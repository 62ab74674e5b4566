package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// bodyTimeout bounds how long a client may take to send a body.
const bodyTimeout = 30 * time.Second

// mostDiscarded bounds what is read of a body that is too large, for clients that read no answer before they have sent
// everything.
const mostDiscarded = 32 << 20

// readBody reads the body before any route sees the request, so that its size and its slowness are judged in one
// place.
func (s *Server) readBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		body, refused := s.bodyOf(w, r)
		if refused != nil {
			writeProblem(w, r, refused)
			return
		}
		if fields := nulls(body); len(fields) > 0 && !judgesNulls(r) {
			p := problem(rollout.Invalid, "null is no value; leave the field out")
			for _, field := range fields {
				p.Errors = append(p.Errors, ProblemFault{Message: "null is no value; leave it out", Location: "body." + field})
			}
			writeProblem(w, r, p)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Header.Get("Content-Type") == "application/x-www-form-urlencoded" {
			r.Header.Set("Content-Type", "application/json") // curl -d and urllib say something else by default
		}
		next.ServeHTTP(w, r)
	})
}

// bodyOf is the body of a request, or why it is not read.
func (s *Server) bodyOf(w http.ResponseWriter, r *http.Request) ([]byte, *Problem) {
	most := s.bounds().MaxBodyBytes
	// Errors of deadlines only mean that this connection has none, as in some tests.
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	if int64(len(body)) > most {
		w.Header().Set("Connection", "close")
		if r.ContentLength <= mostDiscarded {
			_, _ = io.CopyN(io.Discard, r.Body, mostDiscarded) // it is refused anyway
		}
	}
	_ = connection.SetReadDeadline(time.Time{})
	switch {
	case int64(len(body)) > most:
		return nil, problem(codeTooLarge, fmt.Sprintf("a request's body may have %d bytes at most", most))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problem(codeTooSlow, fmt.Sprintf("the body did not arrive within %v", bodyTimeout))
	case err != nil:
		return nil, problem(codeMalformed, "the body could not be read: "+err.Error())
	}
	return body, nil
}

// judgesNulls reports whether a null has a meaning in a request's body, or is judged with the rest of it.
func judgesNulls(r *http.Request) bool {
	switch r.URL.Path {
	case "/v1/runs": // a spec is judged as a whole
		return true
	case fleetPath: // null gives a setting back to the configuration
		return r.Method == patch
	}
	return false
}

// nulls lists the fields of a JSON object that are null though the schema does not allow it. A null would count as left
// out, where the client may have meant to reset a setting.
func nulls(body []byte) []string {
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil {
		return nil // the decoder reports the fault later
	}
	var fields []string
	for name, value := range object {
		if string(value) == "null" && name != "phases" && name != "metrics" {
			fields = append(fields, name)
		}
	}
	slices.Sort(fields)
	return fields
}
