package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry/prom"
)

// probeTimeout bounds what one probe asks of Redis and Temporal.
const probeTimeout = 3 * time.Second

// probes is what a worker answers to those who watch over processes, if it is told to listen: /healthz while it lives,
// /readyz when it takes work, and /metrics. None of it asks for a token, and none of it changes anything.
type probes struct {
	redis    func(context.Context) error
	temporal func(context.Context) error
	polling  atomic.Bool // the Temporal workers ask for work
	metrics  http.Handler
	log      *slog.Logger
}

func newProbes(b *Backend, slots int, playing func() map[rollout.RunName]int) *probes {
	return &probes{
		redis:    b.Buffer.Ping,
		temporal: b.temporalAnswers,
		metrics:  prom.WorkerHandler(slots, playing),
		log:      b.Log,
	}
}

// temporalAnswers is nil if Temporal does.
func (b *Backend) temporalAnswers(ctx context.Context) error {
	_, err := b.Control.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	return err
}

// readiness is the answer to /readyz: what this worker needs, and whether it is there.
type readiness struct {
	Ready    bool `json:"ready"`    // all of the below
	Redis    bool `json:"redis"`    // answers
	Temporal bool `json:"temporal"` // answers
	Polling  bool `json:"polling"`  // this worker asks Temporal for work
}

// serve answers on the address until ctx is done; with none it only waits.
func (p *probes) serve(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("worker.listen: listen on %s: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", p.ready)
	mux.Handle("GET /metrics", p.metrics)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: probeTimeout, ReadTimeout: probeTimeout, WriteTimeout: 4 * probeTimeout,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // probes need no farewell
	defer stop()
	p.log.Info("answering probes", "address", l.Addr().String())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("answer probes: %w", err)
	}
	return nil
}

func (p *probes) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), probeTimeout)
	defer cancel()
	lacks := make(chan error, 1)
	go func() { lacks <- p.temporal(ctx) }()
	answer := readiness{Redis: p.redis(ctx) == nil, Polling: p.polling.Load()}
	answer.Temporal = <-lacks == nil
	answer.Ready = answer.Redis && answer.Temporal && answer.Polling
	w.Header().Set("Content-Type", "application/json")
	if !answer.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer) // a client that has gone needs no answer
}

// temporalLook is whether Temporal answered when a server last looked. Servers do without it, but nobody can start or
// change a run then: their probes tell, and are never refused because of it.
type temporalLook struct {
	answers atomic.Bool
}

const temporalLookEvery = 5 * time.Second

// watch looks until ctx is done, and logs each change.
func (t *temporalLook) watch(ctx context.Context, look func(context.Context) error, address string, log *slog.Logger) {
	for first := true; ; first = false {
		asking, cancel := context.WithTimeout(ctx, probeTimeout)
		err := look(asking)
		cancel()
		if ctx.Err() != nil {
			return
		}
		switch was := t.answers.Swap(err == nil); {
		case err != nil && (was || first):
			log.Warn("Temporal does not answer; claims and records are served, runs cannot be started or changed until it does",
				"address", address, "error", err)
		case err == nil && !was && !first:
			log.Info("Temporal answers again", "address", address)
		}
		if pause(ctx, temporalLookEvery) != nil {
			return
		}
	}
}
