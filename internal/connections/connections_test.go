package connections

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/telemetry"
	"github.com/millrace/millrace/internal/telemetry/axiom/axiomtest"
)

func TestTemporalOptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		cfg         config.Temporal
		tls, hasKey bool
	}{
		{"plain", config.Temporal{Address: "a:1", Namespace: "n"}, false, false},
		{"tls", config.Temporal{Address: "a:1", Namespace: "n", TLS: true}, true, false},
		{"a key is never sent in the clear", config.Temporal{Address: "a:1", Namespace: "n", APIKey: "k"}, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := temporalOptions(tt.cfg, slog.New(slog.DiscardHandler))
			if o.HostPort != "a:1" || o.Namespace != "n" || (o.ConnectionOptions.TLS != nil) != tt.tls ||
				(o.Credentials != nil) != tt.hasKey {
				t.Errorf("%+v", o)
			}
		})
	}
}

// service reads the configuration of a process from variables alone, as a container has them.
func service(t *testing.T, env map[string]string) config.Service {
	t.Helper()
	cfg, err := config.ReadService("configuration", nil, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// token has the form of Axiom's API tokens.
const token = "xaat-00000000-0000-0000-0000-000000000000"

// TestEventsReachAxiom follows an event from a process that has AXIOM_TOKEN, AXIOM_DATASET and AXIOM_URL to our own
// store, and from there, by the process that delivers, to Axiom.
func TestEventsReachAxiom(t *testing.T) {
	t.Parallel()
	fake := &axiomtest.Server{Token: token, Dataset: "rl"}
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	cfg := service(t, map[string]string{
		"MILLRACE_REDIS_URL": "redis://" + miniredis.RunT(t).Addr(),
		"AXIOM_TOKEN":        token, "AXIOM_DATASET": "rl", "AXIOM_URL": server.URL,
	})
	ctx := context.Background()
	conns, err := Open(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer conns.Close()
	shipper, err := conns.Shipper(cfg.Axiom)
	if err != nil {
		t.Fatal(err)
	}
	stop := conns.WriteEvents(ctx, cfg)
	shipper.Start(ctx)
	conns.Events.Emit(telemetry.Event{At: time.Now(), Run: "demo", Key: "demo/start",
		Body: telemetry.RunChanged{State: "running", Change: "start"}})
	stop()
	for end := time.Now().Add(time.Minute); len(fake.Events()) == 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	shipper.Close()
	if got := fake.Events(); len(got) != 1 || got[0]["run_id"] != "demo" || got[0]["kind"] != "run_changed" {
		t.Errorf("Axiom has %v", got)
	}
	kept, err := conns.Events.Recent(ctx, "demo", "", 10)
	if err != nil || len(kept) != 1 {
		t.Errorf("our own store has %v, %v", kept, err)
	}
}

// TestAxiomHalfConfigured says what is missing instead of delivering nothing in silence.
func TestAxiomHalfConfigured(t *testing.T) {
	t.Parallel()
	for missing, env := range map[string]map[string]string{
		"set AXIOM_DATASET": {"AXIOM_TOKEN": token}, "set AXIOM_TOKEN": {"AXIOM_DATASET": "rl"}, "": {},
	} {
		var log bytes.Buffer
		env["MILLRACE_REDIS_URL"] = "redis://" + miniredis.RunT(t).Addr()
		cfg := service(t, env)
		conns, err := Open(context.Background(), cfg, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer conns.Close()
		if shipper, err := conns.Shipper(cfg.Axiom); shipper != nil || err != nil {
			t.Errorf("%v, %v", shipper, err)
		}
		if !strings.Contains(log.String(), missing) || strings.Contains(log.String(), token) {
			t.Errorf("said %q, want %q", log.String(), missing)
		}
	}
}

func TestNoRedis(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := AwaitRedis(ctx, "redis://127.0.0.1:1/0"); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("%v", err)
	}
}

// TestRedisAdvice: a Redis that is there and hangs up, as one in protected mode does, is not to be started.
func TestRedisAdvice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want string
	}{
		{syscall.ECONNREFUSED, "start one"},
		{context.DeadlineExceeded, "start one"},
		{fmt.Errorf("ping: %w", io.EOF), "protected-mode no"},
		{&net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}, "protected-mode no"},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, "rediss://"},
	} {
		if got := redisAdvice(tt.err); !strings.Contains(got, tt.want) {
			t.Errorf("%v: %s, want %s", tt.err, got, tt.want)
		}
	}
}
