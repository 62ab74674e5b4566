package enginesim

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
)

// errStopped is returned when the engine does not run any more.
var errStopped = errors.New("the simulated engine has stopped")

// loop owns the batch scheduler and everything that changes with model time. Its methods that
// take a context may be called from any goroutine; the others belong to run.
type loop struct {
	cfg     Config
	inbox   chan func() // changes to make, run by the owner
	stopped chan struct{}

	started time.Time
	born    time.Duration // model time of the latest start of the process
	now     time.Duration // model time of the change being made
	sched   *batch.Scheduler
	live    map[int64]*generation
	loading map[int64]chan error // each has room for its one result
	lastID  int64
	metrics *metrics
}

func newLoop(cfg Config) *loop {
	l := &loop{
		cfg:     cfg,
		inbox:   make(chan func()),
		stopped: make(chan struct{}),
	}
	l.reset()
	return l
}

// reset is the state of a freshly started process.
func (l *loop) reset() {
	l.sched, l.born = batch.New(l.cfg.Cost, l.cfg.limits()), l.now
	l.live = map[int64]*generation{}
	l.loading = map[int64]chan error{}
	l.metrics = newMetrics(l.cfg, l.sched)
}

// run advances the model until the context ends.
func (l *loop) run(ctx context.Context) error {
	defer close(l.stopped)
	l.started = time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			l.now = l.modelTime()
			l.abortAll(errStopped)
			return nil
		case change := <-l.inbox:
			l.advance()
			change()
			l.drainInbox()
			l.advance() // for what the changes caused at once
		case <-timer.C:
			l.advance()
		}
		if at, ok := l.sched.Next(); ok {
			timer.Reset(l.realTime(at - l.modelTime()))
		}
	}
}

// drainInbox makes the changes that wait already, so that a burst enters one step together.
// It stops at some point: time must go on.
func (l *loop) drainInbox() {
	const burst = 1024
	for range burst {
		select {
		case change := <-l.inbox:
			change()
		default:
			return
		}
	}
}

// do has the owner make a change and waits until it is made.
func (l *loop) do(ctx context.Context, change func()) error {
	made := make(chan struct{})
	select {
	case l.inbox <- func() { change(); close(made) }:
		<-made // the owner does not block: it comes
		return nil
	case <-l.stopped:
		return errStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// modelTime is the time since the start of run, in the model.
func (l *loop) modelTime() time.Duration {
	return time.Duration(float64(time.Since(l.started)) * l.cfg.Speed)
}

// realTime is how long a model duration takes, rounded up so that waking finds it elapsed.
func (l *loop) realTime(d time.Duration) time.Duration {
	return time.Duration(math.Ceil(float64(max(d, 0))/l.cfg.Speed)) + time.Nanosecond
}

// advance computes the model up to now and tells callers what happened.
func (l *loop) advance() {
	l.now = max(l.now, l.modelTime())
	for _, e := range l.sched.Advance(l.now) {
		if e.Kind == batch.Loaded {
			l.loading[e.ID] <- nil
			delete(l.loading, e.ID)
			continue
		}
		if g, ok := l.live[e.ID]; ok {
			l.tell(g, e)
		}
	}
}

// tell records an event of a generation.
func (l *loop) tell(g *generation, e batch.Event) {
	switch e.Kind {
	case batch.Admitted:
		g.ran, g.cached = true, e.Cached
	case batch.Finished:
		g.finished = e.At
		l.over(g, nil)
	case batch.FirstToken, batch.Loaded:
	}
}

// over takes out a generation that has ended; reason is why it cannot be answered.
func (l *loop) over(g *generation, reason error) {
	delete(l.live, g.id)
	l.metrics.finished(g)
	g.failed = reason
	close(g.done)
}

// submit queues a generation, or refuses it.
func (l *loop) submit(ctx context.Context, g *generation) error {
	var refused error
	err := l.do(ctx, func() { refused = l.enter(g) })
	return errors.Join(err, refused)
}

// enter gives a generation to the scheduler.
func (l *loop) enter(g *generation) error {
	if most := l.cfg.MaxQueuedRequests; most > 0 && len(l.live) >= most {
		return errOverloaded
	}
	l.lastID++
	g.id, g.submitted, g.request.ID = l.lastID, l.now, l.lastID
	if err := l.sched.Submit(l.now, g.request); err != nil {
		return err
	}
	l.live[g.id] = g
	return nil
}

// cancel takes out a generation whose client has gone.
func (l *loop) cancel(g *generation) {
	_ = l.do(context.Background(), func() { // an engine that has stopped holds nothing
		if l.live[g.id] == g {
			l.abort(g, context.Canceled)
		}
	})
}

// abort ends a generation early, for a reason.
func (l *loop) abort(g *generation, reason error) {
	g.aborted, g.finished = true, l.now
	l.sched.Abort(l.now, g.id)
	l.over(g, reason)
}

// abortAll ends everything in the engine.
func (l *loop) abortAll(reason error) {
	for _, g := range l.live {
		l.abort(g, reason)
	}
}

// crash is what a dying process does to its clients, and what it forgets.
func (l *loop) crash() {
	l.abortAll(http.ErrAbortHandler)
	for _, loaded := range l.loading {
		loaded <- http.ErrAbortHandler
	}
	l.reset()
}

// load brings an adapter into the engine and returns when it is there.
func (l *loop) load(ctx context.Context, adapter string) error {
	loaded := make(chan error, 1) // buffered, so that the loop never waits for a client that left
	err := l.do(ctx, func() {
		l.lastID++
		l.loading[l.lastID] = loaded
		l.sched.Load(l.now, l.lastID, adapter)
	})
	if err != nil {
		return err
	}
	select {
	case err := <-loaded:
		return err
	case <-l.stopped:
		return errStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}
