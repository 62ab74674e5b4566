// Package live drives package dispatch with real engines and real time. One goroutine, Run, owns the scheduler. Callers
// of Complete hand it their requests, make the calls that it assigns to them on their own goroutines, and report how
// they ended. map_engine_errors_to_outcomes.go translates engine errors for the scheduler,
// dispatcher_stats_and_tallies.go counts, and emit_telemetry_samples.go reports. Start reading at Dispatcher, then
// eventLoop.
package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/engine/dispatch/dispatchlog"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// Engine is what the dispatcher needs of an inference engine. Both methods return soon after their context is done.
type Engine interface {
	Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error)
	// Health is asked after failures, before the engine is tried again.
	Health(ctx context.Context) error
}

// Config is a Dispatcher's surroundings. Clients is required.
type Config struct {
	Scheduler dispatch.Config
	// Clients makes the client of an engine. It is called once per engine and address.
	Clients func(enginestate.Engine) Engine
	// OnDispatch, if set, is called on the caller's goroutine just before a request's first try: the
	// clock of an episode starts at its first dispatch, not while it waits for its turn. The request holds its
	// place at the engine meanwhile, so it must return at once.
	OnDispatch func(rollout.Request)
	// Emit, if set, takes a telemetry.DispatchSample of every run and of the whole each SampleEvery (default 10s).
	Emit        telemetry.Emitter
	Worker      string // names this dispatcher in its events
	SampleEvery time.Duration
	// Timeout bounds a try of a request that names no timeout of its own; default 10 minutes.
	Timeout      time.Duration
	ProbeTimeout time.Duration // default 5s
	// Homes, if set, is where workers agree on the engines where the games of a group begin.
	Homes Homes
	// Log, if set, gets every event that the scheduler is given, and its commands. The caller closes it when Run has
	// ended.
	Log *dispatchlog.Writer
}

// ErrClosed is returned by calls that a dispatcher can no longer serve because Run has ended. Other rejections have the
// reason of the scheduler as code, and a request that failed too often has the code of its last failure.
var ErrClosed = errors.New("dispatcher is closed")

// Dispatcher spreads requests over engines. Its methods are safe for concurrent use; they wait for Run to start.
type Dispatcher struct {
	cfg   Config
	inbox chan func(*eventLoop)
	done  chan struct{} // closed when Run has ended
	last  Stats         // final; readable when done is closed
}

// New makes a dispatcher without engines.
func New(cfg Config) *Dispatcher {
	cfg.SampleEvery = cmp.Or(cfg.SampleEvery, 10*time.Second)
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Minute)
	cfg.ProbeTimeout = cmp.Or(cfg.ProbeTimeout, 5*time.Second)
	if cfg.Emit == nil {
		cfg.Emit = telemetry.Discard
	}
	return &Dispatcher{
		cfg: cfg,
		// Buffered, so that a caller that reports an ending need not wait until the loop is free.
		inbox: make(chan func(*eventLoop), 256),
		done:  make(chan struct{}),
	}
}

// call is one request between its caller and the event loop.
type call struct {
	id  dispatch.ID
	ctx context.Context
	req rollout.Request
	// next is the order that the caller carries out now. The event loop replaces an order that was not taken yet.
	next  chan order
	start time.Time

	// The event loop's: the try that the scheduler counts on, 0 if none, and how to end it.
	try   int
	abort context.CancelCauseFunc
}

// order tells a caller to make a try, or that there will be none.
type order struct {
	ctx    context.Context // of the try
	engine rollout.EngineID
	client Engine
	try    int
	reason rollout.Code // set: rejected
}

// errAbandoned ends a try whose request is dispatched elsewhere.
var errAbandoned = errors.New("the engine was lost; dispatched elsewhere")

// Complete waits for its turn and for an engine, and returns the engine's answer with its Engine and Timing. Tries that
// fail through the engine's fault are made again elsewhere, with the same request. req.Timeout bounds each try
// from its dispatch; only ctx bounds the wait in the queue. Errors are rollout.Failures.
func (d *Dispatcher) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	c := &call{ctx: ctx, req: req, next: make(chan order, 1), start: time.Now()}
	if req.Timeout <= 0 {
		c.req.Timeout = rollout.Duration(d.cfg.Timeout)
	}
	select {
	case d.inbox <- func(o *eventLoop) { o.homed(c) }:
	case <-ctx.Done():
		return rollout.Completion{}, withdrawn(ctx)
	case <-d.done:
		return rollout.Completion{}, closed()
	}
	var timing rollout.Timing
	var failed error // of the latest try
	for {
		select {
		case next := <-c.next:
			if next.reason != "" {
				return rollout.Completion{}, rejected(next.reason, timing.Attempts, failed)
			}
			answer, err := d.try(c, next, &timing)
			if err == nil {
				return answer, nil
			}
			failed = err
		case <-ctx.Done():
			d.post(func(o *eventLoop) { o.cancel(c) })
			return rollout.Completion{}, withdrawn(ctx)
		case <-d.done:
			return rollout.Completion{}, closed()
		}
	}
}

// try makes one try at an engine and reports its end to the event loop.
func (d *Dispatcher) try(c *call, next order, timing *rollout.Timing) (rollout.Completion, error) {
	if timing.Attempts == 0 && d.cfg.OnDispatch != nil {
		d.cfg.OnDispatch(c.req)
	}
	timing.Attempts++
	ctx, cancel := context.WithTimeout(next.ctx, c.req.Timeout.Std())
	began := time.Now()
	answer, err := next.client.Complete(ctx, c.req)
	exec := time.Since(began).Seconds()
	cancel()
	timing.ExecSec += exec
	if err != nil {
		if errors.Is(context.Cause(next.ctx), errAbandoned) {
			err = rollout.Fail(rollout.Retryable, rollout.CodeEngineGone, errAbandoned)
		}
		timing.Fail(rollout.RequestFailure{Engine: next.engine, Code: rollout.CodeOf(err), Sec: exec})
		err = fmt.Errorf("engine %s: %w", next.engine, err)
		d.post(func(o *eventLoop) { o.failed(c, next, err, exec) })
		return rollout.Completion{}, err
	}
	timing.QueueSec = max(0, time.Since(c.start).Seconds()-timing.ExecSec)
	answer.Engine, answer.Timing = next.engine, *timing
	d.post(func(o *eventLoop) { o.served(c, next, &answer, exec) })
	return answer, nil
}

// post hands work to the event loop, unless it is gone.
func (d *Dispatcher) post(f func(*eventLoop)) bool {
	select {
	case d.inbox <- f:
		return true
	case <-d.done:
		return false
	}
}

// SetEngines sets the complete list of engines and their models; it may be called often. Only ready engines are
// dispatched to. The requests of a lost one are dispatched elsewhere. Any other engine, and one that is no longer
// listed, finishes what it has.
func (d *Dispatcher) SetEngines(engines []enginestate.Engine) {
	d.post(func(o *eventLoop) { o.setEngines(engines) })
}

// SetRules says how a run wants to be dispatched.
func (d *Dispatcher) SetRules(run rollout.RunName, rules runspec.Dispatch) {
	d.post(func(o *eventLoop) {
		o.homes.follow(run, &rules)
		o.handle(dispatch.RunRules{Run: run, Rules: rules})
	})
}

// Forget drops a run that is over, and its counters.
func (d *Dispatcher) Forget(run rollout.RunName) {
	d.post(func(o *eventLoop) {
		o.handle(dispatch.RunOver{Run: run})
		delete(o.runs, run)
		o.homes.forget(run)
	})
}

// Snapshot is the dispatcher's state now, or as it was when Run ended.
func (d *Dispatcher) Snapshot() Stats {
	if st, runs := ask(d, (*eventLoop).stats); runs {
		return st
	}
	return d.last
}

// AwaitsCertain reports whether a request waits for certain engines, where the worker may have no slot.
func (d *Dispatcher) AwaitsCertain() bool {
	awaits, _ := ask(d, func(o *eventLoop) bool { return o.scheduler.AwaitsCertain() })
	return awaits
}

// Demand is the requests that the dispatcher holds, as slots of the engines are divided by; nil when Run has ended.
func (d *Dispatcher) Demand() []enginestate.RunDemand {
	demand, _ := ask(d, func(o *eventLoop) []enginestate.RunDemand { return o.scheduler.Demand() })
	return demand
}

// ModelUses is the requests that the dispatcher holds, by run and model; nil when Run has ended.
func (d *Dispatcher) ModelUses() []enginestate.ModelUse {
	uses, _ := ask(d, func(o *eventLoop) []enginestate.ModelUse { return o.scheduler.ModelUses() })
	return uses
}

// ask asks the event loop; false: it is gone.
func ask[T any](d *Dispatcher, what func(*eventLoop) T) (answer T, runs bool) {
	reply := make(chan T, 1)
	if d.post(func(o *eventLoop) { reply <- what(o) }) {
		select {
		case answer = <-reply:
			return answer, true
		case <-d.done:
		}
	}
	return answer, false
}

// Run serves callers until ctx is done; then every call returns ErrClosed. It is called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	o := newEventLoop(ctx, d)
	defer func() {
		d.last = o.stats()
		o.close()
		close(d.done)
		o.background.Wait()
	}()
	sample := time.NewTicker(d.cfg.SampleEvery)
	defer sample.Stop()
	for {
		select {
		case f := <-d.inbox:
			f(o)
		case <-o.timer.C:
			o.handle(dispatch.Tick{})
		case <-sample.C:
			o.sample()
			o.homes.fade()
			if o.log != nil {
				o.log.Flush()
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// withdrawn is the error of a call whose caller no longer waits.
func withdrawn(ctx context.Context) error {
	reason := rollout.CodeCancelled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		reason = rollout.CodeDeadline
	}
	return rollout.Fail(rollout.Retryable, reason, fmt.Errorf("dispatch: %w", context.Cause(ctx)))
}

func closed() error {
	return rollout.Fail(rollout.Retryable, rollout.CodeClosed, fmt.Errorf("dispatch: %w", ErrClosed))
}

// rejected is the error of a call that the scheduler gave up. failed is its latest try's, or nil.
func rejected(reason rollout.Code, attempts int, failed error) error {
	switch {
	case reason == rollout.CodeRefused && failed != nil:
		return failed
	case reason == rollout.CodeExhausted && failed != nil:
		return fmt.Errorf("dispatch: given up after %d attempts: %w", attempts, failed)
	case reason == rollout.CodeDeadline:
		return rollout.Fail(rollout.Retryable, reason,
			fmt.Errorf("dispatch: in the queue: %w", context.DeadlineExceeded))
	case failed != nil:
		return rollout.Fail(rollout.Retryable, reason, fmt.Errorf("dispatch: rejected: %s, after %w", reason, failed))
	}
	return rollout.Fail(rollout.Retryable, reason, fmt.Errorf("dispatch: rejected: %s", reason))
}
