package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func threeEngines() []rollout.Engine {
	load := func(running, waiting, out float64) rollout.EngineLoad {
		return rollout.EngineLoad{At: noon.Add(-2 * time.Second), Running: running, Waiting: waiting, InputTPS: 20 * out,
			OutputTPS: out, PrefixHitShare: 0.8, KVUsage: 0.25, QueueSec: waiting / 8, UsageInputError: 0.0001,
			UsageOutputError: waiting / 100, UsageWindowSec: 60}
	}
	return []rollout.Engine{
		{ID: "a", State: rollout.EngineReady, MaxInFlight: 64, Load: load(16, 0, 900)},
		{ID: "b", State: rollout.EngineReady, MaxInFlight: 64, Load: load(60, 4, 2400)},
		{ID: "c", State: rollout.EngineLost, Reason: "connection refused", MaxInFlight: 64},
	}
}

func TestFleetLine(t *testing.T) {
	t.Parallel()
	all := threeEngines()
	for _, tt := range []struct {
		name    string
		engines []rollout.Engine
		want    string
	}{
		{"sums of those that are ready, and the worst", all, "2 of 3 engines ready  in 66000 tok/s  out 3300 tok/s  mean " +
			"1650, worst 900 (a)"},
		{"one has no worst", all[:1], "1 of 1 engines ready  in 18000 tok/s  out 900 tok/s"},
		{"none ready", all[2:], "0 of 1 engines ready  in 0 tok/s  out 0 tok/s"},
		{"none", nil, "0 of 0 engines ready  in 0 tok/s  out 0 tok/s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := fleetLine(tt.engines); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestUsageGap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		in, out float64
		window  float64
		want    string
	}{
		{"not known", 0, 0, 0, "-"},
		{"none", 0, 0, 60, "0.0 %"},
		{"too small to show", 0.0004, -0.0004, 60, "0.0 %"},
		{"the larger", 0.01, 0.25, 60, "+25.0 %"},
		{"the larger, below zero", 0.01, -0.25, 60, "-25.0 %"},
	} {
		if got := usageGap(rollout.EngineLoad{OutputTPS: 1, UsageInputError: tt.in, UsageOutputError: tt.out,
			UsageWindowSec: tt.window}); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := usageGap(rollout.EngineLoad{UsageInputError: -0.079, UsageWindowSec: 60}); got != "-" {
		t.Errorf("an idle engine: %q", got)
	}
}

// fleetServer answers the list of engines, after it has failed for the requests that fail names.
func fleetServer(t *testing.T, fail func(request int) bool) Client {
	t.Helper()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if fail(int(n.Add(1))) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"engines": threeEngines()})
	}))
	t.Cleanup(server.Close)
	c, err := NewClient(server.URL, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func topSession(format string) (s *session, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	return &session{Deps: Deps{Stdout: stdout, Stderr: stderr, Getenv: func(string) string {
		return ""
	}, Now: func() time.Time { return noon }}, format: format}, stdout, stderr
}

func TestTopShowsTheBusiestFirst(t *testing.T) {
	t.Parallel()
	s, stdout, _ := topSession("table")
	if err := s.top(t.Context(), fleetServer(t, func(int) bool { return false }), time.Millisecond, 2); err != nil {
		t.Fatal(err)
	}
	const view = `12:00:00  2 of 3 engines ready  in 66000 tok/s  out 3300 tok/s  mean 1650, worst 900 (a)
ENGINE  STATE  RUNNING  WAITING  SLOTS  QUEUE s  IN tok/s  OUT tok/s  CACHED    KV  USAGE ERR  SAMPLED  REASON
b       ready       60        4  100 %      0.5     48000       2400    80 %  25 %     +4.0 %   2s ago
a       ready       16        0   25 %      0.0     18000        900    80 %  25 %      0.0 %   2s ago
c       lost         0        0    0 %      0.0         0          0     0 %   0 %          -        -  connection refused
`
	if got := stdout.String(); got != view+view {
		t.Errorf("got\n%s\nwant, twice\n%s", got, view)
	}
}

func TestTopWritesDocuments(t *testing.T) {
	t.Parallel()
	s, stdout, _ := topSession("json")
	if err := s.top(t.Context(), fleetServer(t, func(int) bool { return false }), time.Millisecond, 3); err != nil {
		t.Fatal(err)
	}
	views := 0
	for d := json.NewDecoder(stdout); d.More(); views++ {
		var v struct{ Engines []rollout.Engine }
		if err := d.Decode(&v); err != nil || len(v.Engines) != 3 {
			t.Fatalf("%v, %+v", err, v)
		}
	}
	if views != 3 {
		t.Errorf("%d documents, want 3", views)
	}
}

func TestTopWaitsForAnUnavailableServer(t *testing.T) {
	t.Parallel()
	s, stdout, stderr := topSession("table")
	c := fleetServer(t, func(request int) bool { return request == 2 || request == 3 })
	if err := s.top(t.Context(), c, time.Millisecond, 2); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(stdout.String(), "ENGINE"); n != 2 {
		t.Errorf("%d views, want 2", n)
	}
	if n := strings.Count(stderr.String(), "waiting"); n != 1 {
		t.Errorf("it is said %d times that the server is unavailable, want once", n)
	}
}

func TestTopFailsAtOnceWithoutAServer(t *testing.T) {
	t.Parallel()
	s, _, _ := topSession("table")
	if err := s.top(t.Context(), fleetServer(t, func(int) bool {
		return true
	}), time.Millisecond, 0); ExitCode(err) != ExitUnavailable {
		t.Errorf("got %v", err)
	}
}

func TestTopEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s, _, _ := topSession("table")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.top(ctx, fleetServer(t, func(int) bool { return false }), time.Millisecond, 0); err == nil {
		t.Error("no error")
	}
}
