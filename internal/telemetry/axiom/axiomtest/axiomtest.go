// Package axiomtest is an Axiom for tests, for trials and for `millrace dev --axiom fake`: as strict about tokens,
// permissions, datasets, the number of fields and every limit as Axiom's pages describe it (it was never compared with
// the service), and it can be told to fail in the ways that the real one fails. It is used over HTTP, as a handler, or
// in the caller's own process, as a transport. It answers the calls that axiom-go makes and the dashboards' API that
// this library lacks, and queries in the subset of APL of package apl; at / it has a page for a person.
//
// Start reading at Server, then ingest.go and faults.go.
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
	"strconv"
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
	annotations []annotation
	monitors    []map[string]any
	notifiers   []map[string]any
	dashboards  []*dashboard
	faults      []Fault
	switches    map[string]bool
	hits        map[string]int
	requests    int
	created     int // resources so far, for their ids
	keep        *journal
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
		{"POST /v1/datasets/_apl", "query|read", s.query},

		{"GET /v2/datasets", "datasets|read", s.listDatasets},
		{"POST /v2/datasets", "datasets|create", s.createDataset},
		{"GET /v2/datasets/{dataset}", "datasets|read", s.getDataset},
		{"PUT /v2/datasets/{dataset}", "datasets|update", s.updateDataset},
		{"DELETE /v2/datasets/{dataset}", "datasets|delete", s.deleteDataset},
		{"POST /v2/datasets/{dataset}/trim", "trim|update", s.trimDataset},
		{"POST /v2/datasets/{dataset}/vacuum", "vacuum|update", s.vacuumDataset},
		{"GET /v2/datasets/{dataset}/fields", "datasets|read", s.listFields},
		{"GET /v2/datasets/{dataset}/mapfields", "datasets|read", s.listMapFields},
		{"POST /v2/datasets/{dataset}/mapfields", "datasets|update", s.createMapField},
		{"PUT /v2/datasets/{dataset}/mapfields", "datasets|update", s.updateMapFields},
		{"DELETE /v2/datasets/{dataset}/mapfields/{field}", "datasets|update", s.deleteMapField},

		{"GET /v2/annotations", "annotations|read", s.listAnnotations},
		{"POST /v2/annotations", "annotations|create", s.createAnnotation},
		{"GET /v2/annotations/{id}", "annotations|read", s.getAnnotation},
		{"PUT /v2/annotations/{id}", "annotations|update", s.updateAnnotation},
		{"DELETE /v2/annotations/{id}", "annotations|delete", s.deleteAnnotation},

		{"GET /v2/monitors", "monitors|read", s.listOf(&s.monitors)},
		{"POST /v2/monitors", "monitors|create", s.createMonitor},
		{"GET /v2/monitors/{id}", "monitors|read", s.getOf(&s.monitors)},
		{"PUT /v2/monitors/{id}", "monitors|update", s.updateMonitor},
		{"DELETE /v2/monitors/{id}", "monitors|delete", s.deleteOf(&s.monitors)},

		{"GET /v2/notifiers", "notifiers|read", s.listOf(&s.notifiers)},
		{"POST /v2/notifiers", "notifiers|create", s.createNotifier},
		{"GET /v2/notifiers/{id}", "notifiers|read", s.getOf(&s.notifiers)},
		{"DELETE /v2/notifiers/{id}", "notifiers|delete", s.deleteOf(&s.notifiers)},

		{"GET /v2/dashboards", "dashboards|read", s.listDashboards},
		{"POST /v2/dashboards", "dashboards|create", s.createDashboard},
		{"GET /v2/dashboards/uid/{uid}", "dashboards|read", s.getDashboard},
		{"PUT /v2/dashboards/uid/{uid}", "dashboards|update", s.updateDashboard},
		{"DELETE /v2/dashboards/uid/{uid}", "dashboards|delete", s.deleteDashboard},
	} {
		s.mux.HandleFunc(route.pattern, s.guarded(route.permission, route.handle))
	}
	s.mux.HandleFunc("/v1/", notFound)
	s.mux.HandleFunc("/v2/", notFound)
	s.pageRoutes()
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
		s.limitHeaders(w, permission)
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

// limitHeaders tell what is left of the limits, as in every answer of Axiom.
func (s *Server) limitHeaders(w http.ResponseWriter, permission string) {
	reset := time.Now().Truncate(time.Minute).Add(time.Minute)
	h := w.Header()
	h.Set("X-RateLimit-Scope", "user")
	h.Set("X-RateLimit-Limit", "1000")
	h.Set("X-RateLimit-Remaining", "999")
	h.Set("X-RateLimit-Reset", strconv.FormatInt(reset.Unix(), 10))
	name := map[string]string{"ingest|create": "X-IngestLimit-", "query|read": "X-QueryLimit-"}[permission]
	if name != "" {
		month := time.Date(reset.Year(), reset.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		h.Set(name+"Limit", "500000000000")
		h.Set(name+"Remaining", "499999999999")
		h.Set(name+"Reset", strconv.FormatInt(month.Unix(), 10))
	}
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

// id is the next resource's.
func (s *Server) id(prefix string) string {
	s.created++
	return fmt.Sprintf("%s%06d", prefix, s.created)
}
