// Package axiomtest is an Axiom for tests and trials: as strict about tokens, permissions, datasets, the number of
// fields and every limit as Axiom's pages describe it (it was never compared with the service), and it can be told to
// fail in the ways that the real one fails. It is used over HTTP, as a handler, or in the caller's own process, as a
// transport. It answers the calls that Millrace makes, and no queries; at / it has a page of what arrived.
//
// Start reading at Server, then ingest_events_into_datasets.go and faults.go.
package axiomtest

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// Event is one ingested event.
type Event map[string]any

// Limits are those of Axiom's smallest plan, where they are zero.
type Limits struct {
	Fields     int // of a dataset; 256
	Events     int // of a request; 10,000
	FieldBytes int // of a text; 1 MiB
	NameBytes  int // of a field's name; 200
	Datasets   int // 3
	Monitors   int // 3
	Rows       int // kept of a dataset, the fake's own; 500,000
}

func (l Limits) withDefaults() Limits {
	for _, v := range []struct {
		is   *int
		most int
	}{{&l.Fields, 256}, {&l.Events, 10_000}, {&l.FieldBytes, 1 << 20}, {&l.NameBytes, 200}, {&l.Datasets, 3},
		{&l.Monitors, 3}, {&l.Rows, 500_000}} {
		if *v.is <= 0 {
			*v.is = v.most
		}
	}
	return l
}

// Server is the fake. The zero value takes any token that has the form of one, and any dataset; its fields are set
// before its first use.
type Server struct {
	Token string // that requests must carry; empty: any
	// Permissions are those of Token, as Axiom names them, such as ingest|create or dashboards|read; nil: all.
	Permissions []string
	Dataset     string // the only one that is there from the start; empty: each is, once it is named
	// Strict makes datasets that nobody created unknown, also where Dataset is empty.
	Strict bool
	Limits Limits
	// Refuse says why a single event is not taken, which Axiom reports in a successful answer; nil takes all.
	Refuse func(Event) string

	once sync.Once
	mux  *http.ServeMux

	mu          sync.Mutex
	datasets    map[string]*dataset
	annotations documents
	monitors    documents
	notifiers   documents
	dashboards  documents
	faults      []Fault
	switches    map[string]bool
	hits        map[string]int
	requests    int
	created     int // resources so far, for their ids
}

// Events is what was ingested so far into all datasets, in order, flat, with _time as text.
func (s *Server) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Event{}
	for _, name := range s.names() {
		for _, row := range s.datasets[name].rows {
			out = append(out, eventOf(row))
		}
	}
	return out
}

func eventOf(row map[string]any) Event {
	e := make(Event, len(row))
	for name, v := range row {
		if at, ok := v.(time.Time); ok {
			v = at.Format(time.RFC3339Nano)
		}
		if name != "_sysTime" {
			e[name] = v
		}
	}
	return e
}

// Requests counts the requests to ingest that arrived.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// ErrRefused is what a transport reports when nobody listens.
var ErrRefused = errors.New("connect: connection refused")

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

// ServeHTTP is Axiom's API, and the fake's own page at /.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.once.Do(s.routes)
	s.mux.ServeHTTP(w, r)
}

// routes maps each call to what it needs: a permission, in Axiom's words, and what does it.
func (s *Server) routes() {
	s.mux = http.NewServeMux()
	for _, route := range []struct {
		pattern, permission string
		handle              func(http.ResponseWriter, *http.Request)
	}{
		{"POST /v1/datasets/{dataset}/ingest", "ingest|create", s.ingest},

		{"GET /v2/datasets", "datasets|read", s.listDatasets},
		{"POST /v2/datasets", "datasets|create", s.createDataset},
		{"GET /v2/datasets/{dataset}", "datasets|read", s.getDataset},
		{"GET /v2/datasets/{dataset}/fields", "datasets|read", s.listFields},
		{"GET /v2/datasets/{dataset}/mapfields", "datasets|read", s.listMapFields},
		{"POST /v2/datasets/{dataset}/mapfields", "datasets|update", s.createMapField},

		{"POST /v2/annotations", "annotations|create", s.create(&s.annotations, s.checkAnnotation)},
		{"GET /v2/monitors", "monitors|read", s.list(&s.monitors)},
		{"POST /v2/monitors", "monitors|create", s.create(&s.monitors, s.checkNewMonitor)},
		{"PUT /v2/monitors/{id}", "monitors|update", s.update(&s.monitors, s.checkMonitor)},
		{"GET /v2/notifiers", "notifiers|read", s.list(&s.notifiers)},
		{"POST /v2/notifiers", "notifiers|create", s.create(&s.notifiers, checkNotifier)},
		{"GET /v2/dashboards", "dashboards|read", s.list(&s.dashboards)},
		{"POST /v2/dashboards", "dashboards|create", s.create(&s.dashboards, s.checkDashboard)},
		{"PUT /v2/dashboards/uid/{id}", "dashboards|update", s.update(&s.dashboards, s.checkDashboard)},
	} {
		s.mux.HandleFunc(route.pattern, s.guarded(route.permission, route.handle))
	}
	s.mux.HandleFunc("/v1/", notFound)
	s.mux.HandleFunc("/v2/", notFound)
	s.mux.HandleFunc("GET /{$}", s.page)
	s.mux.HandleFunc("POST /{$}", s.switchOnPage)
}

func notFound(w http.ResponseWriter, r *http.Request) {
	refuse(w, http.StatusNotFound, "no such call: %s %s", r.Method, r.URL.Path)
}

// guarded is what every call meets first: the faults that were asked for, then the token and its permission.
func (s *Server) guarded(permission string, handle func(http.ResponseWriter, *http.Request),
) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Axiom-Trace-Id", traceID())
		if permission == "ingest|create" || s.everywhere() {
			if fault := s.arrive(permission == "ingest|create"); fault != nil && fault(w, r) {
				return
			}
		}
		if s.authorized(w, r, permission) {
			handle(w, r)
		}
	}
}

func traceID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// authorized reports whether a request may be served; if not, it is answered.
func (s *Server) authorized(w http.ResponseWriter, r *http.Request, permission string) bool {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	personal := strings.HasPrefix(token, "xapt-")
	switch {
	case !bearer || !personal && !strings.HasPrefix(token, "xaat-"):
		refuse(w, http.StatusUnauthorized, "unauthorized: want the header Authorization: Bearer xaat-...")
	case personal && r.Header.Get("X-Axiom-Org-Id") == "":
		refuse(w, http.StatusForbidden, "a personal token needs the header X-Axiom-Org-Id")
	case s.Token != "" && token != s.Token:
		refuse(w, http.StatusForbidden, "forbidden")
	case s.Permissions != nil && !slices.Contains(s.Permissions, permission):
		refuse(w, http.StatusForbidden, "forbidden")
	default:
		return true
	}
	return false
}

// refuse answers with an error in Axiom's form.
func refuse(w http.ResponseWriter, status int, format string, args ...any) {
	answer(w, status, map[string]any{"code": status, "message": fmt.Sprintf(format, args...)})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that has gone needs no answer
}
