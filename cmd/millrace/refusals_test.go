package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// TestRefusals holds what the service's own commands say of wrong input, and their exit codes.
func TestRefusals(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"type":"urn:millrace:problem:no-such-run","status":404,"detail":"there is no run \"nobody\""}`))
	}))
	t.Cleanup(gone.Close)
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"rum", 2, "did you mean run?"},
		{"run strat", 2, "did you mean start?"},
		{"config check --setup ../../config/testdata/setup_list.bad.yaml", 1, "want keys with values, not a list"},
		{"config check --setup --service -", 2, "exclude each other"},
		{"server --listen nonsense", 78, `listen: "nonsense" is not host:port`},
		{"server --redis nonsense", 78, "redis.url: want redis://host:port/db"},
		{"worker --temporal nonsense", 78, `temporal.address: "nonsense" is not host:port`},
		{"worker -c /nowhere/service.yaml", 78, "read configuration: open /nowhere/service.yaml"},
		{"server --listen 0.0.0.0:0 --redis redis://" + miniredis.RunT(t).Addr() + "/0", 78, "there is no token"},
		{"worker --redis redis://127.0.0.1:1/0", 5, "redis at 127.0.0.1:1 does not answer"},
		{"dev --redis redis://127.0.0.1:1/0", 5, "redis at 127.0.0.1:1 does not answer"},
		{"trainer demo nobody --server " + gone.URL, 3, `there is no run "nobody"`},
		{"run game nobody/0/0 --server " + gone.URL, 3, `there is no run "nobody"`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			code := run(ctx, strings.Fields(tt.args), strings.NewReader(""), &stdout, &stderr)
			if code != tt.code || !strings.Contains(stderr.String(), tt.says) {
				t.Errorf("exit code %d, says %q; want %d and %q", code, stderr.String(), tt.code, tt.says)
			}
			if stdout.Len() > 0 {
				t.Errorf("stdout: %s", stdout.String())
			}
		})
	}
}
