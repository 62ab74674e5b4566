package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/face/onevllm"
	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/kit/panics"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/supply"
	"github.com/millrace/millrace/internal/store/buffer"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/mailbox"
)

// Control is the durable side of runs. Its refusals are answers; other errors mean that it is unavailable.
type Control interface {
	// Start starts a run once; created is false when the same spec runs already.
	Start(ctx context.Context, spec runspec.Spec) (status runstatus.RunStatus, created bool, err error)
	Change(ctx context.Context, run rollout.RunName, c spec.Change) (runstatus.RunStatus, error)
	// Probe begins a load probe, or ends the one under way.
	Probe(ctx context.Context, run rollout.RunName, p runstatus.LoadProbeRequest) (runstatus.RunStatus, error)
	Stop(ctx context.Context, run rollout.RunName, reason string) (runstatus.RunStatus, error)
	// Delete makes a run that is over unknown, and frees its name; what it held is removed afterwards.
	Delete(ctx context.Context, run rollout.RunName) error
	// Publish returns when the version serves, or is rejected.
	Publish(ctx context.Context, run rollout.RunName, v rollout.PolicyVersion, path string,
		by rollout.TrainerGeneration) (runstatus.Policy, error)
	// BufferChanged is a hint that a batch was formed or a step completed: the run reads the truth from the store. The
	// mark, unless it is zero, is how far the account has come, and is kept when this returns.
	BufferChanged(ctx context.Context, run rollout.RunName, mark runstatus.Mark) error
	// Mark is how far the run's workflow knows the account to have come.
	Mark(ctx context.Context, run rollout.RunName) (runstatus.Mark, error)
}

// Store is the buffer, as far as trainers and operators see it.
type Store interface {
	// ID is the id of the run that a name stands for now; names reach no other method.
	ID(ctx context.Context, name rollout.RunName) (rollout.RunName, error)
	// RunsPage lists runs that may be seen, after the run named after: active ones first, then ended ones, latest first.
	// next begins the next page; empty: this is the last.
	RunsPage(ctx context.Context, after rollout.RunName, limit int, seen func(rollout.RunName) bool) (
		runs []runstatus.RunStatus, next rollout.RunName, err error)
	Active(ctx context.Context) ([]runstatus.RunStatus, error)
	// EndedRuns lists those that are over, the latest first.
	EndedRuns(ctx context.Context, after rollout.RunName, limit int, seen func(rollout.RunName) bool) (
		runs []runstatus.RunStatus, next rollout.RunName, err error)
	Status(ctx context.Context, run rollout.RunName) (runstatus.RunStatus, error)
	Counts(ctx context.Context, run rollout.RunName) (steprecord.BufferCounts, error)
	Account(ctx context.Context, run rollout.RunName) (buffer.Account, error)
	Departures(ctx context.Context, run rollout.RunName) ([]steprecord.LengthCount, error)
	// InPlay reports whether a group's games are still played.
	InPlay(ctx context.Context, ref rollout.GroupRef) (bool, error)

	Attach(ctx context.Context, run rollout.RunName, resumeFrom *rollout.Step) (rollout.TrainerGeneration,
		rollout.Step, error)
	ClaimRaw(ctx context.Context, run rollout.RunName, step rollout.Step, generation rollout.TrainerGeneration,
		share buffer.Share) (*buffer.RawBatch, error)
	// Batch reads the batch of a step that was claimed before.
	Batch(ctx context.Context, run rollout.RunName, step rollout.Step) (*buffer.RawBatch, error)
	Complete(ctx context.Context, run rollout.RunName, step rollout.Step, generation rollout.TrainerGeneration,
		report steprecord.StepReport, fleet steprecord.FleetView) (record steprecord.StepRecord, isNew bool, err error)
	// KeepEngines keeps what each engine did for a granted step.
	KeepEngines(ctx context.Context, run rollout.RunName, step rollout.Step, engines []enginestate.EngineView) error
	Steps(ctx context.Context, run rollout.RunName, from rollout.Step, limit int) ([]steprecord.StepRecord, error)
	// AllSteps is Steps with those whose record or batch Redis has lost.
	AllSteps(ctx context.Context, run rollout.RunName, from rollout.Step, limit int) ([]steprecord.StepRecord, error)
	Step(ctx context.Context, run rollout.RunName, step rollout.Step) (steprecord.StepRecord, error)
	// TrainerActivity is when the run's trainer was heard of, at whichever server, and Heartbeat notes that it lives, or
	// why it ends.
	TrainerActivity(ctx context.Context, run rollout.RunName) (runstatus.TrainerActivity, error)
	Heartbeat(ctx context.Context, run rollout.RunName, generation rollout.TrainerGeneration, ended string) error
	// MayReturn reports whether a run that Redis does not know is about to be opened again by its workflow, and Await that
	// nobody could do so until now.
	MayReturn(ctx context.Context, run rollout.RunName) bool
	Await(run rollout.RunName)
	// Unwitnessed is how far this process has seen the run's account come, where its workflow may not know it, and
	// Witnessed notes that it does.
	Unwitnessed(run rollout.RunName) (runstatus.Mark, bool)
	UnwitnessedRuns() []rollout.RunName
	// Knows reports whether this process has seen how far the run's account has come, and Know tells it.
	Knows(run rollout.RunName) bool
	Know(run rollout.RunName, mark runstatus.Mark)
	Witnessed(ctx context.Context, run rollout.RunName, mark runstatus.Mark) error
	// AttemptCounts is how the attempts at the run's games have ended.
	AttemptCounts(ctx context.Context, run rollout.RunName) (runstatus.AttemptCounts, error)
}

// Fleet is the engines.
type Fleet interface {
	List(ctx context.Context) ([]enginestate.Engine, error)
	Get(ctx context.Context, id rollout.EngineID) (enginestate.Engine, error)
	Add(ctx context.Context, e enginestate.Engine) (enginestate.Engine, error)
	// Drain gives an engine nothing new; now dispatches elsewhere what it has.
	Drain(ctx context.Context, id rollout.EngineID, now bool) error
	// Remove drains an engine and then takes it out of the fleet.
	Remove(ctx context.Context, id rollout.EngineID, now bool) error
	// Scaling is the state of a fleet that is scaled; false: it never was.
	Scaling(ctx context.Context) (view supply.View, scaled bool, err error)
}

// Workers is the worker processes.
type Workers interface {
	// List describes them, those that are gone last.
	List(ctx context.Context) ([]enginestate.Worker, error)
}

// Event is one telemetry event, as it is streamed: an id to resume after, and a flat JSON object.
type Event = store.Record

// GoneEvents counts a run's oldest events that are not kept any more.
type GoneEvents = store.Gone

// Events is the run's own history of events.
type Events interface {
	// Gone counts what is not kept any more, by kind.
	Gone(ctx context.Context, run rollout.RunName) ([]GoneEvents, error)
	// Recent lists up to limit events after the one with id after, oldest first; after "" is the beginning of what
	// is kept.
	Recent(ctx context.Context, run rollout.RunName, after string, limit int) ([]Event, error)
	// Follow calls see with every event after the one with id after, old ones first, until ctx is done or see fails.
	Follow(ctx context.Context, run rollout.RunName, after string, see func(Event) error) error
}

// Games is the games of runs, as a person looks through them.
type Games interface {
	Games(ctx context.Context, run rollout.RunName, q gamelist.Query) (gamelist.Page, error)
	Turns(ctx context.Context, ref rollout.EpisodeRef) (gamelist.Turns, error)
	Turn(ctx context.Context, ref rollout.EpisodeRef, n int) (gamelist.Turn, error)
}

// Deps are the server's dependencies; all are needed.
type Deps struct {
	Control Control
	Store   Store
	Fleet   Fleet
	Workers Workers
	Events  Events
	// Changes calls changed with every run that may have a new batch, from when it calls began until it returns.
	Changes func(ctx context.Context, began func(), changed func(rollout.RunName)) error
	// ReadSpec reads a run spec in YAML or JSON, strictly. An error that unwraps to several is reported fault by fault.
	ReadSpec func([]byte) (runspec.Spec, error)

	// Diagnose answers GET .../diagnosis, as JSON. Engines measures each engine over a window.
	Engines  func(ctx context.Context, run rollout.RunName, from, to time.Time) ([]enginestate.EngineView, error)
	Diagnose func(ctx context.Context, run rollout.RunName, asked DiagnosisQuery) (any, error)
	// SetScaling changes by what the fleet is scaled, and answers by what it is from now on and which of that was set
	// while it ran.
	SetScaling func(ctx context.Context, change scaling.SettingsChange) (now scaling.Config, set []string, err error)
	// FleetView sums up the engines over a window.
	FleetView func(ctx context.Context, run rollout.RunName, from, to time.Time) (steprecord.FleetView, error)
	// Game shows one game, as its environment writes it.
	Game func(ctx context.Context, ref rollout.EpisodeRef) (json.RawMessage, error)
	// Games lists the games of a run, and their turns.
	Games Games
	// Mail is where programs that play meet their games; CountTokens is how many tokens a prompt has; both may be nil.
	Mail        *mailbox.Box
	CountTokens func(ctx context.Context, req rollout.Request) (int, error)
	// VLLM answers as one vLLM with the fleet behind it; nil: this server does not.
	VLLM *onevllm.Handler
	// Ready reports why this process cannot serve now.
	Ready func(ctx context.Context) error
	// Temporal reports whether Temporal answered when it was last looked at; /readyz tells, and does not ask itself.
	Temporal func() bool
	Metrics  http.Handler
	// Storage lists settings of Redis that lose what was written, as they are now.
	Storage func() []string
	// Sinks is where events are delivered to, beside the store, and how that goes.
	Sinks       func(ctx context.Context) ([]telemetry.SinkStatus, error)
	DeadLetters DeadLetters
	// Tell keeps an audit of every change before the call ends.
	Tell telemetry.Teller
	// Panics hears of faults of the program that the server survived.
	Panics panics.Watch
	// OnRefusal hears of every request and connection that was turned away, by a small set of reasons.
	OnRefusal func(reason string)

	Now func() time.Time
	Log *slog.Logger
}
