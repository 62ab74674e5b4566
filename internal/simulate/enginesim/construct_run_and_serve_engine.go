package enginesim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
	"github.com/millrace/millrace/internal/simulate/enginesim/constraint"
	"github.com/millrace/millrace/internal/simulate/enginesim/pseudolm"
	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// rememberedConstraints bounds the compiled structured outputs that an engine keeps.
const rememberedConstraints = 64

// Engine is one simulated engine. It answers once Run is running.
type Engine struct {
	cfg         Config
	tokens      *tokenizer.Tokenizer
	model       *pseudolm.Model
	constraints *constraint.Compiler
	adapters    *registry
	faults      *faults
	loop        *loop
	handler     http.Handler

	created  int64 // unix time
	unseeded atomic.Uint64
}

// New makes an engine that is not running yet.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("simulated engine: %w", err)
	}
	cfg.ModelPath = cmp.Or(cfg.ModelPath, cfg.Model)
	tokens := tokenizer.New()
	e := &Engine{
		cfg:         cfg,
		tokens:      tokens,
		model:       pseudolm.New(tokens),
		constraints: constraint.NewCompiler(tokens, rememberedConstraints),
		adapters:    newRegistry(cfg),
		loop:        newLoop(cfg),
		created:     time.Now().Unix(),
	}
	e.faults = newFaults()
	e.handler = e.routes()
	return e, nil
}

// Handler answers vLLM's HTTP API. Requests wait until Run is running.
func (e *Engine) Handler() http.Handler { return e.handler }

// Run runs the engine until the context ends; requests still held are then aborted. An engine
// runs once.
func (e *Engine) Run(ctx context.Context) error {
	e.faults.startUp(time.Duration(float64(e.cfg.ColdStart) / e.cfg.Speed))
	return e.loop.run(ctx)
}

// shutdownGrace is how long Serve waits for handlers to write their last answer.
const shutdownGrace = 2 * time.Second

// Serve runs the engine and serves its API on the listener until the context ends, then closes
// the listener and every connection.
func (e *Engine) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: e.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: e.cfg.KeepAlive}
	served := make(chan error, 1) // buffered: Serve's result may come after we stopped listening
	go func() { served <- server.Serve(l) }()
	running := make(chan error, 1)
	loopCtx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { running <- e.Run(loopCtx) }()

	var failed error
	select {
	case <-ctx.Done():
	case err := <-served:
		failed = fmt.Errorf("serve simulated engine: %w", err)
	}
	stop()
	failed = errors.Join(failed, <-running)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if server.Shutdown(grace) != nil {
		_ = server.Close() // what is still open is hung on purpose
	}
	return failed
}

// Stats is what only a simulated engine knows about itself.
type Stats struct {
	Totals  batch.Totals
	Elapsed float64 // seconds of model time
	Busy    float64 // of these, spent in steps
}

// Stats reports on the engine since its start; busy share is Busy over Elapsed.
func (e *Engine) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	err := e.loop.do(ctx, func() {
		s.Totals, s.Elapsed = e.loop.sched.Totals(), (e.loop.now - e.loop.born).Seconds()
		s.Busy = s.Totals.Busy.Seconds()
	})
	return s, err
}

// seed is the next seed for a request that brings none.
func (e *Engine) seed() uint64 {
	n := e.unseeded.Add(1)
	return virtualtime.SplitMix(stat.Mix(e.cfg.Seed ^ n*0x9E3779B97F4A7C15)).Uint64()
}
