// Package telemetry is the events that Millrace reports about itself, as typed values, and
// the interface that takes them. It ships nothing: telemetry/store keeps events in Redis and
// telemetry/axiom sends them to Axiom. Emitting never blocks and never fails the work.
//
// An event flattens to one JSON object with a kind, a time, an id for deduplication and
// snake_case fields with units in their names. Start reading at Event and Emitter.
package telemetry

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Emitter takes events. Emit must return at once; an event that cannot be kept is counted, not waited for.
type Emitter interface {
	Emit(Event)
}

// EmitterFunc makes a function an Emitter.
type EmitterFunc func(Event)

// Emit calls f.
func (f EmitterFunc) Emit(e Event) { f(e) }

// Discard drops every event.
var Discard Emitter = EmitterFunc(func(Event) {})

// Event is one fact: when, about what, and a typed body.
type Event struct {
	At     time.Time
	Run    rollout.RunName  // empty for facts about the fleet
	Engine rollout.EngineID // empty when not about one engine
	// Key makes the event's id unique and repeatable: the same fact reported twice, say by a
	// retried activity, has the same id.
	Key  string
	Body Body
}

// Body is what happened. The set is closed.
//
//sumtype:decl
type Body interface {
	Kind() string
}

// RunChanged reports a start, a change by an operator, or an end.
type RunChanged struct {
	State  rollout.RunState `json:"state"`
	Change string           `json:"change"` // what was done: "start", "set buffer.depth=4", "pause"
	Reason string           `json:"reason,omitempty"`
}

// StepCompleted carries the whole record of a step.
type StepCompleted struct {
	Record rollout.StepRecord `json:"record"`
}

// SignalChanged reports that most groups no longer say anything to a trainer, or do so again; Signal.Collapsed
// tells which.
type SignalChanged struct {
	Signal rollout.Signal `json:"signal"`
}

// BatchClaimed reports that a step's batch was formed.
type BatchClaimed struct {
	Step       rollout.Step         `json:"step"`
	Counts     rollout.BufferCounts `json:"counts"`    // just before
	StarvedSec float64              `json:"starved_s"` // first asked to formed

	StalenessInFlightMean float64 `json:"staleness_in_flight_mean"`
	StalenessInBufferMean float64 `json:"staleness_in_buffer_mean"`
	FlatGroups            int     `json:"flat_groups"`
}

// BufferLevel is a sample of the buffer.
type BufferLevel struct {
	Counts     rollout.BufferCounts `json:"counts"`
	Target     int64                `json:"target"`    // groups the run wants outstanding
	StarvedSec float64              `json:"starved_s"` // seconds in this sample's window in which a trainer waited
	WindowSec  float64              `json:"window_s"`
	Throttle   rollout.Throttle     `json:"throttle,omitempty"` // what keeps the run below its target
	Signal     rollout.Signal       `json:"signal,omitzero"`
	Alarms     []rollout.AlarmCode  `json:"alarms,omitempty"` // that stand
}

// AlarmChanged reports that something keeps a run's games from being played, or does so no longer.
type AlarmChanged struct {
	Raised bool              `json:"raised"`
	Code   rollout.AlarmCode `json:"code"`
	Text   string            `json:"text,omitempty"` // of one that is raised
	Advice string            `json:"advice,omitempty"`
}

// GroupReady reports a group committed to the buffer.
type GroupReady struct {
	Group        rollout.GroupView `json:"group"`
	Trajectories int               `json:"trajectories"`
	Failed       int               `json:"failed"`
}

// GroupDropped reports a group that will not be trained on.
type GroupDropped struct {
	Seq    rollout.GroupSeq `json:"group_seq"`
	Code   string           `json:"code"`
	Phases []int            `json:"phases,omitempty"` // length of each game that was played to its end; empty: not known
}

// EpisodeFinished reports one game.
type EpisodeFinished struct {
	Ref      rollout.EpisodeRef `json:"ref"`
	WallSec  float64            `json:"duration_s"`
	ModelSec float64            `json:"model_s"`
	EnvSec   float64            `json:"env_s"`
	QueueSec float64            `json:"queue_s"`
	Phases   int                `json:"phases"`
	Attempts int                `json:"attempts"`
	Usage    rollout.Usage      `json:"usage"`
	Counts   map[string]int64   `json:"counts,omitempty"` // the environment's own, such as orders by validity
}

// EpisodeFailed reports a game that was given up or will be tried again.
type EpisodeFailed struct {
	Ref     rollout.EpisodeRef `json:"ref"`
	Code    string             `json:"code"`
	Failure string             `json:"failure"`
	Attempt int                `json:"attempt"`
	Final   bool               `json:"final"`
	Usage   rollout.Usage      `json:"usage"` // of the game up to here, earlier attempts included; not of requests that were cut off
}

// AdapterLoaded reports one load of one adapter on one engine.
type AdapterLoaded struct {
	Adapter string                `json:"adapter"`
	Version rollout.PolicyVersion `json:"policy_version"`
	Sec     float64               `json:"adapter_load_s"`
	Failure string                `json:"failure,omitempty"`
}

// AdapterChanged reports that the files of an adapter in use are not those that were published, or, without a
// reason, that they are again. Engines that have them loaded go on with the weights that they have; none loads
// them.
type AdapterChanged struct {
	Adapter string                `json:"adapter"`
	Version rollout.PolicyVersion `json:"policy_version"`
	Path    string                `json:"path"`
	Reason  string                `json:"reason,omitempty"`
}

// PolicyPublished reports that a version serves, or why it does not.
type PolicyPublished struct {
	Policy rollout.Policy `json:"policy"`
}

// EngineChanged reports an engine's new state.
type EngineChanged struct {
	State  rollout.EngineState `json:"state"`
	Reason string              `json:"reason,omitempty"`
}

// EnginePaced reports that an engine began or ceased to lag behind the fleet.
type EnginePaced struct {
	Slow string `json:"slow"` // how it lags; empty: no longer
}

// BreakerChanged reports that a worker stopped giving an engine requests, or does so again: those of the run in
// whose events it is, or of every run.
type BreakerChanged struct {
	Worker string `json:"worker"`
	Open   bool   `json:"open"` // no requests for now
	Reason string `json:"reason,omitempty"`
}

// EngineSample is an engine's load and throughput, from its own counters, and how far these agree with what workers
// were answered.
type EngineSample struct {
	Load rollout.EngineLoad `json:"load"`
}

// DispatchSample is a worker's dispatcher over a window: rates per run from usage, which must agree with the
// engines' counters.
type DispatchSample struct {
	WindowSec float64                  `json:"window_s"`
	Queued    int                      `json:"queued_requests"`
	InFlight  map[rollout.EngineID]int `json:"in_flight"`
	Rejected  map[string]int64         `json:"rejected,omitempty"` // by reason
	InputTPS  float64                  `json:"input_tokens_per_s"`
	OutputTPS float64                  `json:"output_tokens_per_s"`
	// ByVersion is a run's rates by the policy version that answered; they add up to the run's. Versions without
	// tokens in the window are left out, and so are all of them in the sample of the whole.
	ByVersion map[rollout.PolicyVersion]TokenRate `json:"by_policy_version,omitempty"`
}

// TokenRate is tokens per second in both directions.
type TokenRate struct {
	InputTPS  float64 `json:"input_tokens_per_s"`
	OutputTPS float64 `json:"output_tokens_per_s"`
}

// Audit reports a change that somebody asked for over the API, also one that was refused.
type Audit struct {
	Who    string `json:"who"` // the token's name
	Role   string `json:"role"`
	From   string `json:"from"`             // the client's address
	What   string `json:"what"`             // operation, such as change-run
	Target string `json:"target,omitempty"` // such as run demo, engine gpu-1
	// Before and After are what the change made different.
	Before    map[string]string `json:"before,omitempty"`
	After     map[string]string `json:"after,omitempty"`
	Status    int               `json:"status"`         // of the answer: 400 and above is a refusal
	Code      string            `json:"code,omitempty"` // of the refusal
	RequestID string            `json:"request_id"`
}

// Kind is the event's name in every sink.
func (Audit) Kind() string           { return "audit" }
func (RunChanged) Kind() string      { return "run_changed" }
func (StepCompleted) Kind() string   { return "training_step" }
func (SignalChanged) Kind() string   { return "signal_changed" }
func (BatchClaimed) Kind() string    { return "batch_claimed" }
func (BufferLevel) Kind() string     { return "buffer_level" }
func (AlarmChanged) Kind() string    { return "alarm_changed" }
func (GroupReady) Kind() string      { return "group_ready" }
func (GroupDropped) Kind() string    { return "group_dropped" }
func (EpisodeFinished) Kind() string { return "rollout_complete" }
func (EpisodeFailed) Kind() string   { return "rollout_error" }
func (AdapterLoaded) Kind() string   { return "adapter_loaded" }
func (AdapterChanged) Kind() string  { return "adapter_changed" }
func (PolicyPublished) Kind() string { return "policy_published" }
func (EngineChanged) Kind() string   { return "engine_changed" }
func (EnginePaced) Kind() string     { return "engine_paced" }
func (BreakerChanged) Kind() string  { return "breaker_changed" }
func (EngineSample) Kind() string    { return "engine_sample" }
func (DispatchSample) Kind() string  { return "dispatch_sample" }
