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

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/observe/prom/processmetrics"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/worker/workerconfig"
)

// probeTimeout bounds what one probe asks of Redis and Temporal.
const probeTimeout = 3 * time.Second

// healthEndpoints are what a worker answers to those who watch over processes, if it is told to listen: /healthz while
// it lives, /readyz when it takes work, and /metrics. None of it asks for a token, and none of it changes anything.
type healthEndpoints struct {
	redis    func(context.Context) error
	temporal func(context.Context) error
	polling  atomic.Bool // the Temporal workers ask for work
	metrics  http.Handler
	log      *slog.Logger
}

func newHealthEndpoints(b *connections.Set, metrics *prometheus.Registry) *healthEndpoints {
	return &healthEndpoints{
		redis:    b.Buffer.Ping,
		temporal: b.Control.Reachable,
		metrics:  processmetrics.WorkerHandler(metrics),
		log:      b.Log,
	}
}

// readiness is the answer to /readyz: what this worker needs, and whether it is there.
type readiness struct {
	Ready    bool `json:"ready"`    // all of the below
	Redis    bool `json:"redis"`    // answers
	Temporal bool `json:"temporal"` // answers
	Polling  bool `json:"polling"`  // this worker asks Temporal for work
}

// serve answers on the address until ctx is done; with none it only waits.
func (h *healthEndpoints) serve(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil && address == workerconfig.DefaultListen {
		h.log.Info("answering no probes: another process of this machine does so at the default address; set worker.listen "+
			"to give this worker one of its own", "address", address)
		return nil
	}
	if err != nil {
		return fmt.Errorf("worker.listen: listen on %s: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", h.ready)
	mux.Handle("GET /metrics", h.metrics)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: probeTimeout, ReadTimeout: probeTimeout, WriteTimeout: 4 * probeTimeout,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // probes need no farewell
	defer stop()
	h.log.Info("answering probes", "address", l.Addr().String())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("answer probes: %w", err)
	}
	return nil
}

func (h *healthEndpoints) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), probeTimeout)
	defer cancel()
	lacks := make(chan error, 1)
	go func() { lacks <- h.temporal(ctx) }()
	answer := readiness{Redis: h.redis(ctx) == nil, Polling: h.polling.Load()}
	answer.Temporal = <-lacks == nil
	answer.Ready = answer.Redis && answer.Temporal && answer.Polling
	w.Header().Set("Content-Type", "application/json")
	if !answer.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer) // a client that has gone needs no answer
}
