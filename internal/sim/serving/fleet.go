// Package serving is a dispatcher and its engines in virtual time: requests go through the service's own
// dispatch.Scheduler to modelled engines (enginemodel), and their answers come back. Where requests come from is the
// caller's: a run's games (package sim), or arrivals of an experiment.
//
// Start reading at Fleet.
package serving

import (
	"time"

	"github.com/millrace/millrace/internal/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/sim/enginemodel"
	"github.com/millrace/millrace/internal/sim/virtualtime"
)

// Request is one completion to be made.
type Request struct {
	Episode rollout.EpisodeRef
	Model   string // adapter, or base model
	Prompt  int    // tokens
	Output  int    // tokens that the answer will have
	// ToldPrompt and ToldOutput are what the dispatcher is told to expect; 0: it is not told.
	ToldPrompt, ToldOutput int
	Class                  uint64               // see dispatch.Request
	Deadline               time.Duration        // of the wait in the queue; 0: none
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
	Tries    int
	// Submitted is when the dispatcher got it, Sent when the last try was dispatched, Ended when the answer was back.
	Submitted, Sent, Ended time.Duration
	Prompt, Output, Cached int // tokens
}

// Config is a fleet's surroundings.
type Config struct {
	Scheduler dispatch.Config
	// CallOverhead is what a completion takes beside the engine's own time: half of it before, half after.
	CallOverhead time.Duration
	// Start is the time of day at which virtual time is zero: dispatch counts in times of day.
	Start time.Time
	// Log, if set, is told every event that the scheduler is given, and what it commands.
	Log func(now time.Time, event dispatch.Event, commands []dispatch.Command)
}

// Fleet is a dispatcher and its engines. It lives on an agenda that it may share with others.
type Fleet struct{}

// Loader hears of adapter loads that it asked for.
type Loader interface {
	AdapterLoaded(now time.Duration, engine rollout.EngineID, tag uint64)
}

// New is a fleet without engines.
func New(agenda *virtualtime.Agenda, cfg Config) *Fleet { panic("not built yet") }

// Rules says how a run wants to be dispatched.
func (f *Fleet) Rules(run rollout.RunName, rules rollout.Dispatch) {}

// RunOver says that no more requests of a run will come.
func (f *Fleet) RunOver(run rollout.RunName) {}

// Submit offers a request.
func (f *Fleet) Submit(r Request) dispatch.ID { return 0 }

// Cancel withdraws a request, wherever it is. Its client hears nothing more.
func (f *Fleet) Cancel(id dispatch.ID) {}

// AddEngine lets an engine take requests for the base models now, limit at a time. Slots is how many adapters fit into
// one of its batches; 0: not known.
func (f *Fleet) AddEngine(id rollout.EngineID, e enginemodel.Engine, limit, slots int, models []string) {
}

// SetAdapters says which adapters an engine serves from now on.
func (f *Fleet) SetAdapters(id rollout.EngineID, adapters []string) {}

// LoadAdapter has an engine load an adapter, and tells when it has. It does not serve it before SetAdapters says so.
func (f *Fleet) LoadAdapter(id rollout.EngineID, adapter string, l Loader, tag uint64) {}

// DrainEngine lets an engine finish what it has and gives it nothing more.
func (f *Fleet) DrainEngine(id rollout.EngineID) {}

// LoseEngine takes an engine away with all it has; that is dispatched again elsewhere.
func (f *Fleet) LoseEngine(id rollout.EngineID) {}

// Slow multiplies the time of an engine's work from now on.
func (f *Fleet) Slow(id rollout.EngineID, factor float64) {}

// Totals is what the fleet has done since the beginning; differences of two are a window's.
func (f *Fleet) Totals() Totals { return Totals{} }

// Totals is sums over engines and time, from which rates and shares of any window follow.
type Totals struct {
	EngineSec    float64 // engines that take requests, over time
	BusySec      float64 // of these: with at least one running request
	InFlightSec  float64 // requests in flight, over time
	LimitSec     float64 // limits of requests in flight, over time
	QueuedSec    float64 // requests in the dispatcher's queue, over time
	Input        int64   // prompt tokens of answered requests
	Cached       int64   // of these, found in prefix caches
	Output       int64   // tokens generated
	Submitted    int64   // requests
	Completed    int64
	Rejected     int64
	Cancelled    int64
	Held         int64 // neither completed, nor rejected, nor cancelled
	Redispatched int64
}
