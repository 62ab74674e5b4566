package worker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/millrace/millrace/config"
)

// probe asks a process what it says of itself.
func probe(t *testing.T, address, path string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, strings.TrimSpace(string(text))
}

// TestAWorkerSaysWhatItLacks goes through the real worker: first without Temporal, then without Redis too.
func TestAWorkerSaysWhatItLacks(t *testing.T) {
	t.Parallel()
	redis, address := miniredis.RunT(t), freeAddress(t)
	text := fmt.Sprintf("redis: {url: redis://%s/0}\ntemporal: {address: 127.0.0.1:1}\nworker: {games: 7, listen: %s}\n",
		redis.Addr(), address)
	cfg, err := config.ReadService("service.yaml", []byte(text), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runWorker(ctx, cfg, slog.New(slog.DiscardHandler)) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the worker ended: %v", err)
		}
	}()
	want := func(path string, status int, words string) {
		t.Helper()
		got, body := probe(t, address, path)
		if got != status || !strings.Contains(body, words) {
			t.Errorf("%s: %d %s; want %d %s", path, got, body, status, words)
		}
	}
	for status := 0; status == 0 && t.Context().Err() == nil; {
		status, _ = probe(t, address, "/healthz")
	}
	want("/healthz", http.StatusOK, "ok")
	want("/readyz", http.StatusServiceUnavailable, `{"ready":false,"redis":true,"temporal":false,"polling":false}`)
	want("/metrics", http.StatusOK, "millrace_worker_slots 7")
	redis.Close()
	want("/readyz", http.StatusServiceUnavailable, `{"ready":false,"redis":false,"temporal":false,"polling":false}`)
	want("/healthz", http.StatusOK, "ok")
}

// TestAWorkerIsReady goes through the real worker and the real server: both say so once Temporal answers, and the
// worker only when it asks for work.
func TestAWorkerIsReady(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	cfg := d.cfg
	cfg.Worker.Listen = freeAddress(t)
	d.while("a worker", func(ctx context.Context) error { return runWorker(ctx, cfg, slog.New(slog.DiscardHandler)) })
	for address, want := range map[string]string{
		cfg.Worker.Listen: `{"ready":true,"redis":true,"temporal":true,"polling":true}`,
		cfg.Listen:        `{"ready":true,"temporal":true}`,
	} {
		d.until("readiness", func() error {
			if status, body := probe(t, address, "/readyz"); status != http.StatusOK || body != want {
				return fmt.Errorf("%d %s, want %s", status, body, want)
			}
			return nil
		})
	}
}
