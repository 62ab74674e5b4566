// Package serving is a dispatcher and its engines in virtual time: requests go through the service's own
// dispatch.Scheduler to modelled engines (enginemodel), and their answers come back. Where requests come from is the
// caller's: a run's games (package sim), or arrivals of an experiment.
//
// Start reading at Fleet.
package serving

import (
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// Request is one completion to be made.
type Request struct {
	Episode rollout.EpisodeRef
	Model   string // adapter, or base model
	Prompt  int    // tokens
	Output  int    // tokens that the answer will have
	// ToldPrompt and ToldOutput are what the dispatcher is told to expect; 0: it is not told.
	ToldPrompt, ToldOutput int
	Deadline               time.Duration        // when its wait in the queue ends; 0: never
	Timeout                time.Duration        // bounds each try; 0: it may take forever
	Shared                 []enginemodel.Prefix // see enginemodel.Call
	// Client hears how the request ended, under Tag.
	Client Client
	Tag    uint64
}

// Client hears of its requests' ends.
type Client interface {
	Answered(now time.Duration, tag uint64, answer Answer)
}

// Answer is how a request ended.
type Answer struct {
	ID       dispatch.ID
	Engine   rollout.EngineID // empty: rejected in the queue
	Rejected rollout.Code     // empty: answered
	Attempts int
	// Submitted is when the dispatcher got it, Sent when the last try was dispatched, Ended when the answer was back.
	Submitted, Sent, Ended time.Duration
	Prompt, Output, Cached int // tokens
}

// Config is a fleet's surroundings.
type Config struct {
	Scheduler dispatch.Config
	// CallOverhead is what a completion takes beside the engine's own time: half of it before, half after.
	CallOverhead time.Duration
	// Start is the time of day at which virtual time is zero: dispatch counts in times of day. The zero time is a day of
	// its own.
	Start time.Time
	// SampleEvery is how often engines say what load they have, as long as requests are held: a live fleet asks every
	// second, and dispatches fewer to an engine that has more than it can work on. 0: they never say.
	SampleEvery time.Duration
	// Log, if set, is told every event that the scheduler is given, and what it commands. It keeps none of it, and calls
	// nothing of the fleet.
	Log func(now time.Time, event dispatch.Event, commands []dispatch.Command)
}

// What happens at the same time happens in this order: engines finish before new requests reach them, and answers are
// back before the scheduler's own alarms.
const (
	ClassEngine  virtualtime.Class = 64 + iota // an engine's work
	ClassArrival                               // of a request at an engine
	ClassAnswer                                // is back at the dispatcher
	ClassTimeout                               // of a try
	ClassSample                                // of the engines' load
	ClassWake                                  // of the scheduler
)

// Fleet is a dispatcher and its engines. It lives on an agenda that it may share with others.
type Fleet struct {
	cfg       Config
	agenda    *virtualtime.Agenda
	scheduler *dispatch.Scheduler
	start     time.Time
	before    time.Duration // of a call's overhead
	after     time.Duration

	lastID   dispatch.ID
	requests map[dispatch.ID]*request // held
	slots    []*request               // every one that was ever made, by its slot
	spare    []*request

	engines  map[rollout.EngineID]*engine
	order    []*engine // those that take requests, as they were added
	loads    map[uint64]adapterLoad
	lastLoad uint64

	wake   *virtualtime.Timer
	sample *virtualtime.Timer

	totals accounts
}

// New is a fleet without engines.
func New(agenda *virtualtime.Agenda, cfg Config) *Fleet {
	f := &Fleet{
		cfg: cfg, agenda: agenda, scheduler: dispatch.New(cfg.Scheduler), start: cfg.Start,
		before: cfg.CallOverhead / 2, after: cfg.CallOverhead - cfg.CallOverhead/2,
		requests: map[dispatch.ID]*request{}, engines: map[rollout.EngineID]*engine{}, loads: map[uint64]adapterLoad{},
	}
	if f.start.IsZero() {
		f.start = time.Unix(0, 0).UTC() // a zero time would mean "none" to the scheduler
	}
	f.wake = agenda.Timer(ClassWake, (*wakeHandler)(f), 0)
	f.sample = agenda.Timer(ClassSample, (*sampleHandler)(f), 0)
	return f
}

// Rules says how a run wants to be dispatched.
func (f *Fleet) Rules(run rollout.RunName, rules runspec.Dispatch) {
	f.handle(dispatch.RunRules{Run: run, Rules: rules})
}

// RunOver says that no more requests of a run will come.
func (f *Fleet) RunOver(run rollout.RunName) { f.handle(dispatch.RunOver{Run: run}) }

// Submit offers a request. Its client does not hear of its end before Submit has returned.
func (f *Fleet) Submit(r Request) dispatch.ID {
	f.lastID++
	q := f.newRequest()
	q.Request, q.id, q.submitted = r, f.lastID, f.agenda.Now()
	f.requests[q.id] = q
	f.totals.add(q.submitted, counts{queued: 1})
	f.totals.Submitted++
	if f.cfg.SampleEvery > 0 && len(f.requests) == 1 {
		f.sample.Set(f.nextSample())
	}
	ask := dispatch.Request{
		ID: q.id, Episode: r.Episode, Model: r.Model, PromptTokens: r.ToldPrompt, OutputTokens: r.ToldOutput,
	}
	if r.Deadline > 0 {
		ask.Deadline = f.start.Add(r.Deadline)
	}
	f.handle(dispatch.Submit{Request: ask})
	return f.lastID
}

// Cancel withdraws a request, wherever it is. Its client hears nothing more.
func (f *Fleet) Cancel(id dispatch.ID) {
	q := f.requests[id]
	if q == nil {
		return
	}
	q.Client = nil
	if q.rejected == "" {
		f.handle(dispatch.Cancel{ID: id})
	}
}

// Scheduler is the state of the dispatcher.
func (f *Fleet) Scheduler() dispatch.Stats { return f.scheduler.Stats() }

// handle gives the scheduler an event and does what it commands. Nothing that it does calls back: clients and loaders
// hear through the agenda.
func (f *Fleet) handle(ev dispatch.Event) {
	now := f.agenda.Now()
	commands := f.scheduler.Handle(f.start.Add(now), ev)
	if f.cfg.Log != nil {
		f.cfg.Log(f.start.Add(now), ev, commands)
	}
	for _, c := range commands {
		switch c := c.(type) {
		case dispatch.Send:
			f.send(now, c)
		case dispatch.Abandon:
			f.abandon(now, f.requests[c.ID])
		case dispatch.Reject:
			f.reject(now, f.requests[c.ID], c.Reason)
		case dispatch.Probe:
			f.agenda.At(now+f.cfg.CallOverhead, ClassAnswer, probe{f.engines[c.Engine]}, 0)
		case dispatch.Wake:
			f.wake.Set(c.At.Sub(f.start))
		case dispatch.Opened, dispatch.Closed:
		}
	}
}

type wakeHandler Fleet

func (h *wakeHandler) Happen(time.Duration, uint64) { (*Fleet)(h).handle(dispatch.Tick{}) }
