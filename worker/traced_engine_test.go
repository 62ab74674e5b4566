package worker

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/observe/otel"
	"github.com/millrace/millrace/internal/observe/otel/oteltest"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// TestAnEngineHearsWhichSpanItsCallIs: a call of an engine carries its span in the header traceparent, with the ids
// that arrive at the collector; nothing is said where nothing is exported.
func TestAnEngineHearsWhichSpanItsCallIs(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var heard []string
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, r.Header.Get("traceparent"))
		http.Error(w, `{"error":{"message":"no","type":"x","param":null,"code":503}}`, http.StatusServiceUnavailable)
	}))
	t.Cleanup(engine.Close)
	collector := &oteltest.Collector{}
	to := httptest.NewServer(collector)
	t.Cleanup(to.Close)
	exporter, err := otel.Open(t.Context(), otel.Config{Ratio: 1, Service: "test",
		Traces: otel.Signal{On: true, Endpoint: to.URL}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "demo", Seq: 3}}
	req := rollout.Request{ID: "r", Episode: ref, Agent: "x", Model: "m", Prompt: "p",
		Sampling: rollout.Sampling{MaxTokens: 4, TopP: 1}}
	at := enginestate.Engine{ID: "e", URL: engine.URL}
	for _, e := range []*otel.Exporter{exporter, nil} {
		clients, err := connections.NewEngineClients(connections.Config{}, e)
		if err != nil {
			t.Fatal(err)
		}
		ctx := e.InGroup(t.Context(), ref.GroupRef)
		if _, err := traced(e, at, clients.MustGet(at)).Complete(ctx, req); rollout.CodeOf(err) != rollout.CodeOverloaded {
			t.Errorf("got %v", err)
		}
	}
	exporter.Close()
	spans := collector.Spans()
	if len(spans) != 1 || spans[0].Attributes["error.type"] != string(rollout.CodeOverloaded) {
		t.Fatalf("spans: %+v", spans)
	}
	if want := "00-" + otel.TraceID("demo").String() + "-" + spans[0].ID + "-01"; len(heard) != 2 || heard[0] != want ||
		heard[1] != "" {
		t.Errorf("the engine heard %s, want %s and nothing", strings.Join(heard, ", "), want)
	}
}
