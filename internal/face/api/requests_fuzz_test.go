package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/face/api"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// FuzzRequests: whatever stands in the path, the query and the headers of a request, the answer is the client's
// mistake, said as a problem, or an answer; never a broken server.
func FuzzRequests(f *testing.F) {
	for _, seed := range []struct{ method, path, query, header, value string }{
		{"POST", "/v1/runs/demo/steps/0/claim", "generation=1&wait=30s", "Accept", api.CompactBatch},
		{"POST", "/v1/runs/demo/steps/0/claim", "generation=1&rank=1&world=2&wait=0.5", "Accept-Encoding", "gzip;q=0, *"},
		{"POST", "/v1/runs/demo/steps/9223372036854775807/claim", "generation=-1&wait=-1s&world=65537",
			"Content-Type", "text/plain"},
		{"POST", "/v1/runs/demo/steps/0/claim", "wait=NaN&rank=0x1", "Accept-Encoding", "gzip;q=NaN"},
		{"POST", "/v1/runs/demo/steps/0/claim", "wait=1e6&rank=9223372036854775807&world=9223372036854775807",
			"Accept", "a/b;q=2"},
		{"POST", "/v1/runs/demo/steps/0/claim", "generation=1&world=9223372036854775807", "Accept", "a/b;;=,"},
		{"GET", "/v1/runs/demo", "", "Accept", "text/html;q"},
		{"GET", "/v1/runs/demo", "", "Accept", "a/b; ,c"},
		{"GET", "/v1/runs/demo/steps", "from=1&limit=1000", "", ""},
		{"GET", "/v1/runs/demo/steps", "from=-1&limit=0", "", ""},
		{"GET", "/v1/runs/demo/curve", "by=time&points=1000", "", ""},
		{"GET", "/v1/runs/demo/events", "after=1700000000000-0&limit=10", "Last-Event-ID", "1700000000000-0"},
		{"GET", "/v1/events", "after=%00", "Accept", "text/event-stream"},
		{"GET", "/v1/runs/..%2F..%2Fetc/games/0/0", "", "", ""},
		{"GET", "/v1/runs/demo/diagnosis", "", "Authorization", "Bearer "},
		{"DELETE", "/v1/engines/gpu-1", "now=maybe", "X-Request-Id", "a\tb"},
		{"GET", "/openapi.json", "", "Host", "evil.example"},
		{"PUT", "/v1/runs/demo/policies/-1", "", "Content-Length", "-1"},
		{"BREW", "/", "%zz", "Origin", "null"},
	} {
		f.Add(seed.method, seed.path, seed.query, seed.header, seed.value)
	}
	server, err := newServer(api.Config{Listen: "127.0.0.1:0", MaxWait: time.Millisecond}, api.Deps{
		Control: &deaf{}, Store: &anything{scripted{answer: notReady}}, Fleet: smallFleet{}, Workers: oneWorker{},
		Events:   nilEvents{},
		ReadSpec: func([]byte) (s runspec.Spec, err error) { return s, nil },
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, path, query, header, value string) {
		// A stream of events lasts until its client goes.
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, method, "http://localhost/", strings.NewReader("{}"))
		if err != nil {
			t.Skip("the HTTP server lets no such method through")
		}
		if r.URL, err = url.ParseRequestURI(path + "?" + query); err != nil || !strings.HasPrefix(path, "/") {
			t.Skip("the HTTP server lets no such target through")
		}
		r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		if header != "" {
			r.Header.Set(header, value)
		}
		w := httptest.NewRecorder()
		server.Handler().ServeHTTP(w, r)
		if w.Code == http.StatusNotImplemented || w.Code < http.StatusBadRequest {
			return
		}
		var p api.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code >= 500 || p.Status != w.Code || p.Detail == "" {
			t.Errorf("%s %s with %s: %q: %d %s", method, r.URL, header, value, w.Code, w.Body)
		}
	})
}
