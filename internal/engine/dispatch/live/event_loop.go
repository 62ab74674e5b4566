package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/engine/dispatch/dispatchlog"
	"github.com/millrace/millrace/internal/kit/version"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// eventLoop is the state of a running dispatcher. Only Run's goroutine touches it.
type eventLoop struct {
	ctx        context.Context
	d          *Dispatcher
	scheduler  *dispatch.Scheduler
	log        *dispatchlog.Writer // nil: nothing is logged
	timer      *time.Timer
	background sync.WaitGroup // probes and shared calls

	lastID  dispatch.ID
	calls   map[dispatch.ID]*call
	remotes map[rollout.EngineID]remote
	runs    map[rollout.RunName]*tally
	engines map[rollout.EngineID]rollout.Usage
	sampled sampled
	homes   groupHomes
}

// remote is an engine that may be dispatched to.
type remote struct {
	url    string
	client Engine
	models map[string]bool         // adapters included
	state  enginestate.EngineState // that the scheduler was last told of
}

func newEventLoop(ctx context.Context, d *Dispatcher) *eventLoop {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	if d.cfg.Log != nil {
		d.cfg.Log.Begin(time.Now(), dispatchlog.Header{
			Worker: d.cfg.Worker, Program: version.String(), Scheduler: d.cfg.Scheduler,
		})
	}
	return &eventLoop{
		ctx: ctx, d: d, timer: timer, log: d.cfg.Log,
		scheduler: dispatch.New(d.cfg.Scheduler),
		calls:     map[dispatch.ID]*call{},
		remotes:   map[rollout.EngineID]remote{},
		runs:      map[rollout.RunName]*tally{},
		engines:   map[rollout.EngineID]rollout.Usage{},
		sampled:   sampled{at: time.Now()},
		homes:     newGroupHomes(),
	}
}

// handle applies an event to the scheduler and does what it commands.
func (o *eventLoop) handle(ev dispatch.Event) {
	now := time.Now()
	if o.log != nil {
		now, ev = o.log.Time(now), o.log.Event(ev)
	}
	commands := o.scheduler.Handle(now, ev)
	if o.log != nil {
		o.log.Write(now, ev, commands)
	}
	for _, command := range commands {
		switch command := command.(type) {
		case dispatch.Send:
			o.send(command)
		case dispatch.Abandon:
			c := o.calls[command.ID]
			c.try = 0
			c.abort(errAbandoned)
		case dispatch.Reject:
			o.calls[command.ID].order(order{reason: command.Reason})
			delete(o.calls, command.ID)
		case dispatch.Probe:
			o.probe(command.Engine)
		case dispatch.Opened:
			o.breaks(command.Engine, command.Run, telemetry.BreakerChanged{Open: true, Reason: command.Reason})
		case dispatch.Closed:
			o.breaks(command.Engine, command.Run, telemetry.BreakerChanged{})
		case dispatch.Wake:
			o.wake(now, command.At)
		}
	}
}

// wake sets the timer for the time at which the scheduler wants to be called; now is the present.
func (o *eventLoop) wake(now, at time.Time) {
	if o.log != nil { // Then both are on the log's scale, which is not the clock's.
		o.timer.Reset(at.Sub(now))
		return
	}
	o.timer.Reset(time.Until(at))
}

// breaks reports that dispatch to an engine stopped or goes on: of one run, in the run's events, or of every run.
func (o *eventLoop) breaks(engine rollout.EngineID, run rollout.RunName, change telemetry.BreakerChanged) {
	now := time.Now()
	change.Worker = o.d.cfg.Worker
	o.d.cfg.Emit.Emit(telemetry.Event{
		At: now, Run: run, Engine: engine, Body: change,
		Key: fmt.Sprintf("breaker/%s/%s/%t/%d", change.Worker, engine, change.Open, now.UnixNano()),
	})
}

// submit hands a call to the scheduler; its game begins at home, if that is not empty.
func (o *eventLoop) submit(c *call, home rollout.EngineID) {
	o.lastID++
	c.id = o.lastID
	o.calls[c.id] = c
	o.handle(o.submitted(c, home))
}

// send makes a try.
func (o *eventLoop) send(s dispatch.Send) {
	c := o.calls[s.ID]
	if s.Try == 1 {
		o.tally(c.req.Episode.Run) // from now on, samples tell of the run
	}
	ctx, abort := context.WithCancelCause(c.ctx)
	c.abort, c.try = abort, s.Try
	c.order(order{ctx: ctx, engine: s.Engine, client: o.remotes[s.Engine].client, try: s.Try})
}

// order leaves the caller its next order. The event loop is the only sender, so there is room once a stale one is out.
func (c *call) order(next order) {
	select {
	case <-c.next:
	default:
	}
	c.next <- next
}

// cancel withdraws a call. One that still waits to know where its game begins is never submitted.
func (o *eventLoop) cancel(c *call) {
	if c.id != 0 {
		o.handle(dispatch.Cancel{ID: c.id})
	}
}

// served handles a good answer of a try.
func (o *eventLoop) served(c *call, made order, answer *rollout.Completion, exec float64) {
	usage := answer.Usage()
	usage.ExecSec = exec // of this try alone
	part := rollout.UsagePart{Engine: made.engine, Version: c.req.Version, Adapter: c.req.Model}
	o.tally(c.req.Episode.Run).does(part, usage, time.Now())
	o.count(made.engine, usage)
	o.endTry(c, made, dispatch.TryEnded{
		Outcome: dispatch.Served, PromptTokens: int(usage.InputTokens), OutputTokens: int(usage.OutputTokens),
	})
}

// failed handles a try without an answer. If its caller went away, it proves nothing about the engine.
func (o *eventLoop) failed(c *call, made order, err error, exec float64) {
	if c.ctx.Err() != nil {
		o.cancel(c)
		return
	}
	o.tally(c.req.Episode.Run).usage.ExecSec += exec
	o.count(made.engine, rollout.Usage{ExecSec: exec})
	o.endTry(c, made, dispatch.TryEnded{Outcome: outcomeOf(err), RetryAfter: retryAfter(err), Code: rollout.CodeOf(err)})
}

// endTry reports to the scheduler how a try ended, and releases a call whose caller has its answer.
func (o *eventLoop) endTry(c *call, made order, ev dispatch.TryEnded) {
	if c.try == made.try {
		c.abort(nil)
	}
	ev.ID, ev.Try = c.id, made.try
	o.handle(ev)
	if ev.Outcome == dispatch.Served {
		delete(o.calls, c.id)
	}
}

// setEngines brings the scheduler's engines in line with the list.
func (o *eventLoop) setEngines(engines []enginestate.Engine) {
	listed := map[rollout.EngineID]bool{}
	for i := range engines {
		listed[engines[i].ID] = true
		o.setEngine(&engines[i])
	}
	for _, id := range slices.Sorted(maps.Keys(o.remotes)) {
		if !listed[id] {
			o.handle(dispatch.EngineDrain{ID: id})
			delete(o.remotes, id)
			delete(o.engines, id)
		}
	}
}

func (o *eventLoop) setEngine(e *enginestate.Engine) {
	known, ok := o.remotes[e.ID]
	if ok && known.url != e.URL {
		o.handle(dispatch.EngineDown{ID: e.ID}) // another engine under the same name
		ok = false
	}
	if !ok {
		client := o.d.cfg.Clients(*e)
		if client == nil {
			delete(o.remotes, e.ID)
			return
		}
		known = remote{url: e.URL, client: client}
	}
	if known.state == e.State && e.State != enginestate.EngineReady {
		return // nothing new of one that gets no requests
	}
	known.state = e.State
	known.models = make(map[string]bool, len(e.Models)+len(e.Adapters))
	for _, model := range slices.Concat(e.Models, e.Adapters) {
		known.models[model] = true
	}
	o.remotes[e.ID] = known
	switch e.State {
	case enginestate.EngineReady:
		o.handle(dispatch.EngineUp{ID: e.ID, Limit: e.MaxInFlight, Models: e.Models, Adapters: e.Adapters,
			Slots: e.AdapterSlots, Elsewhere: e.Elsewhere})
		o.handle(dispatch.EngineSampled{ID: e.ID, Load: dispatch.Load{
			At: e.Load.At, Running: e.Load.Running, Waiting: e.Load.Waiting, KVUsage: e.Load.KVUsage,
			Preemptions: e.Load.Preemptions,
			LifeAt:      e.Load.LifeAt,
		}})
	case enginestate.EngineLost:
		o.handle(dispatch.EngineDown{ID: e.ID})
	default:
		o.handle(dispatch.EngineDrain{ID: e.ID})
	}
}

// probe asks an engine for its health, beside the loop's other work.
func (o *eventLoop) probe(id rollout.EngineID) {
	client := o.remotes[id].client
	o.background.Go(func() {
		ctx, cancel := context.WithTimeout(o.ctx, o.d.cfg.ProbeTimeout)
		defer cancel()
		err := client.Health(ctx)
		o.d.post(func(o *eventLoop) { o.handle(dispatch.EngineProbed{ID: id, OK: err == nil}) })
	})
}

// close ends every try.
func (o *eventLoop) close() {
	o.timer.Stop()
	for _, c := range o.calls {
		if c.abort != nil {
			c.abort(ErrClosed)
		}
	}
}
