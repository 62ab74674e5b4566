package server

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/observe/axiom/axiomtest"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore/delivery"
)

// configured reads the configuration of a process from variables alone, as a container has them.
func configured(t *testing.T, env map[string]string) config.Service {
	t.Helper()
	cfg, err := config.ReadService("configuration", nil, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// deliveryToken has the form of Axiom's API tokens.
const deliveryToken = "xaat-00000000-0000-0000-0000-000000000000"

// TestEventsReachAxiom follows an event from a process that has AXIOM_TOKEN, AXIOM_DATASET and AXIOM_URL to our own
// store, and from there, by the process that delivers, to Axiom.
func TestEventsReachAxiom(t *testing.T) {
	t.Parallel()
	fake := &axiomtest.Server{Token: deliveryToken, Dataset: "rl"}
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	cfg := configured(t, map[string]string{
		"MILLRACE_REDIS_URL": "redis://" + miniredis.RunT(t).Addr(),
		"AXIOM_TOKEN":        deliveryToken, "AXIOM_DATASET": "rl", "AXIOM_URL": server.URL,
	})
	ctx := context.Background()
	conns, err := connections.Open(ctx, "test", cfg.Config.Config, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer conns.Close()
	sink := delivery.New(conns.Redis, cfg.Redis.Prefix, conns.Events)
	shipper, err := newShipper(cfg.Axiom, conns, sink)
	if err != nil {
		t.Fatal(err)
	}
	stop := conns.WriteEvents(ctx, cfg.Config.Config)
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
		"set AXIOM_DATASET": {"AXIOM_TOKEN": deliveryToken}, "set AXIOM_TOKEN": {"AXIOM_DATASET": "rl"}, "": {},
	} {
		var log bytes.Buffer
		env["MILLRACE_REDIS_URL"] = "redis://" + miniredis.RunT(t).Addr()
		cfg := configured(t, env)
		conns, err := connections.Open(context.Background(), "test", cfg.Config.Config,
			slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer conns.Close()
		sink := delivery.New(conns.Redis, cfg.Redis.Prefix, conns.Events)
		if shipper, err := newShipper(cfg.Axiom, conns, sink); shipper != nil || err != nil {
			t.Errorf("%v, %v", shipper, err)
		}
		if !strings.Contains(log.String(), missing) || strings.Contains(log.String(), deliveryToken) {
			t.Errorf("said %q, want %q", log.String(), missing)
		}
	}
}
