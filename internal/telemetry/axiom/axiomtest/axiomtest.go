// Package axiomtest is an Axiom for tests: it takes events as the real one does and can be told to fail in the ways
// that the real one fails. It is used over HTTP, as a handler, or in the caller's own process, as a transport.
package axiomtest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// maxEvents is Axiom's own bound of a request.
const maxEvents = 10_000

// Event is one ingested event.
type Event map[string]any

// Fault answers one request otherwise than it should be; done reports whether it has answered at all. A fault that
// returns false lets the request go on.
type Fault func(w http.ResponseWriter, r *http.Request) (done bool)

// Server is the fake. The zero value takes any token.
type Server struct {
	Token   string // that requests must carry; empty: any
	Dataset string // the only one there is; empty: any
	// Refuse says why a single event is not taken, which Axiom reports in a successful answer; nil takes all.
	Refuse func(Event) string

	mu       sync.Mutex
	events   []Event
	faults   []Fault
	requests int
}

// Fail makes the next requests meet these faults, one each, in order.
func (s *Server) Fail(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faults...)
}

// Events is what was ingested so far, in order.
func (s *Server) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Event{}, s.events...)
}

// Requests counts the requests that arrived.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// ErrRefused is what a transport reports when nobody listens.
var ErrRefused = errors.New("connect: connection refused")

// Status answers with a status and a JSON message.
func Status(status int, message string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		answer(w, status, map[string]any{"message": message})
		return true
	}
}

// Text answers with a status and plain text, as a proxy does.
func Text(status int, text string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, text, status)
		return true
	}
}

// Limited answers 429, or 430 for the month's quota, with the moment at which the limit ends.
func Limited(status int, reset time.Time) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		prefix := "X-RateLimit-"
		if status != http.StatusTooManyRequests {
			prefix = "X-IngestLimit-"
		}
		w.Header().Set(prefix+"Limit", "100")
		w.Header().Set(prefix+"Remaining", "0")
		w.Header().Set(prefix+"Reset", strconv.FormatInt(reset.Unix(), 10))
		answer(w, status, map[string]any{"message": "limit exceeded"})
		return true
	}
}

// Hang answers nothing for d, or until the client goes, and then lets the request go on.
func Hang(d time.Duration) Fault {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-time.After(d):
			return false
		case <-r.Context().Done():
			return true
		}
	}
}

// LoseAnswer ingests the events and then answers as a broken proxy would: the client cannot know.
func (s *Server) LoseAnswer() Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		s.ingest(httptest.NewRecorder(), r)
		http.Error(w, "bad gateway", http.StatusBadGateway)
		return true
	}
}

// Refuse makes the transport report that nobody listens; over HTTP, the connection is cut.
func Refuse() Fault {
	return func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }
}

// RoundTrip serves a request without a network.
func (s *Server) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, ErrRefused
		}
	}()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// ServeHTTP takes events at POST /v1/datasets/{dataset}/ingest.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/datasets/{dataset}/ingest", func(w http.ResponseWriter, r *http.Request) {
		if fault := s.arrive(); fault != nil && fault(w, r) {
			return
		}
		s.ingest(w, r)
	})
	mux.ServeHTTP(w, r)
}

// arrive counts a request and takes the next fault.
func (s *Server) arrive() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if len(s.faults) == 0 {
		return nil
	}
	fault := s.faults[0]
	s.faults = s.faults[1:]
	return fault
}

func (s *Server) ingest(w http.ResponseWriter, r *http.Request) {
	if s.Token != "" && r.Header.Get("Authorization") != "Bearer "+s.Token {
		answer(w, http.StatusForbidden, map[string]any{"message": "forbidden"})
		return
	}
	if s.Dataset != "" && r.PathValue("dataset") != s.Dataset {
		answer(w, http.StatusNotFound, map[string]any{"message": "dataset not found"})
		return
	}
	events, err := read(r)
	if err != nil {
		answer(w, http.StatusBadRequest, map[string]any{"message": err.Error()})
		return
	}
	if len(events) > maxEvents {
		answer(w, http.StatusRequestEntityTooLarge, map[string]any{"message": "too many events"})
		return
	}
	var failures []map[string]any
	var taken []Event
	for _, e := range events {
		if s.Refuse != nil {
			if why := s.Refuse(e); why != "" {
				failures = append(failures, map[string]any{"timestamp": e["_time"], "error": why})
				continue
			}
		}
		taken = append(taken, e)
	}
	s.mu.Lock()
	s.events = append(s.events, taken...)
	s.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{"ingested": len(taken), "failed": len(failures), "failures": failures})
}

// read decodes a body of NDJSON, or of a JSON list, compressed or not.
func read(r *http.Request) ([]Event, error) {
	body, err := uncompressed(r)
	if err != nil {
		return nil, err
	}
	var events []Event
	switch typ := r.Header.Get("Content-Type"); typ {
	case "application/json":
		err = json.Unmarshal(body, &events)
	case "application/x-ndjson":
		for text := range bytes.Lines(body) {
			var e Event
			if err = json.Unmarshal(text, &e); err != nil {
				break
			}
			events = append(events, e)
		}
	default:
		err = fmt.Errorf("content type %q", typ)
	}
	return events, err
}

func uncompressed(r *http.Request) ([]byte, error) {
	switch coding := r.Header.Get("Content-Encoding"); coding {
	case "":
		return io.ReadAll(r.Body)
	case "gzip":
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(z)
	case "zstd":
		z, err := zstd.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		defer z.Close()
		return io.ReadAll(z)
	default:
		return nil, fmt.Errorf("content encoding %q", coding)
	}
}

func answer(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that has gone needs no answer
}
