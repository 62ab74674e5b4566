package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/kit/freeport"
)

// served is an API server as the binary runs it, on a Redis of its own and without Temporal.
type served struct {
	t     *testing.T
	url   string
	redis *miniredis.Miniredis
	log   *logged
	http  *http.Client
	stop  func() error // stops the server and answers how it ended
}

// logged is what a server has logged so far.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serveAPI runs Run with the settings of a configuration file, and the variables, until the test ends.
func serveAPI(t *testing.T, settings string, env map[string]string) *served {
	t.Helper()
	s := &served{t: t, redis: miniredis.RunT(t), log: &logged{}, http: &http.Client{Transport: &http.Transport{}}}
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(settings, "redis:") {
		settings += fmt.Sprintf("redis: {url: redis://%s/0}\n", s.redis.Addr())
	}
	text := fmt.Sprintf("listen: %s\ntemporal: {address: 127.0.0.1:1}\n%s", address, settings)
	cfg, err := config.ReadService("service.yaml", []byte(text), func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + address
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, "test", slog.New(slog.NewTextHandler(s.log, nil))) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		s.http.CloseIdleConnections()
		if err := s.stop(); err != nil {
			t.Errorf("the server ended with: %v", err)
		}
	})
	s.until("the server answers", func() bool {
		resp, err := s.http.Get(s.url + "/healthz")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil
	})
	return s
}

// until waits, for as long as a loaded machine may need, until what is expected is so.
func (s *served) until(what string, is func() bool) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("never: %s; the log:\n%s", what, s.log)
		}
	}
}

// response is a response, read.
type response struct {
	status int
	header http.Header
	body   string
}

// call makes one call with a token, or with none.
func (s *served) call(method, path, token, body string) (response, error) {
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		return response{}, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, resp.Header, string(b)}, err
}

// want makes a call that must have this status.
func (s *served) want(status int, method, path, token, body string) response {
	s.t.Helper()
	got, err := s.call(method, path, token, body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	if got.status != status {
		s.t.Fatalf("%s %s: status %d, want %d: %s", method, path, got.status, status, got.body)
	}
	return got
}
