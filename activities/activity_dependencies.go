// Package activities is the side effects that workflows ask for: playing episodes, committing
// groups to the buffer, loading adapters on engines, keeping the fleet. Each one is idempotent,
// because Temporal may run it again; each takes one input and returns one result, so that both
// can grow. Failures carry their kind: see temporal_errors_and_retry_pauses.go. Start reading at Activities, then
// PlayEpisode.
package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/millrace/millrace/internal/engine/adapterfiles"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling/supply"
	"github.com/millrace/millrace/internal/store/buffer"
)

// Activities holds what the side effects need, all of it: see Validate. Its methods are registered with a Temporal
// worker.
type Activities struct {
	Buffer       Buffer
	Fleet        Fleet
	Files        *adapterfiles.Reader // of adapters; nil remembers no digests
	Groups       Groups
	Heartbeats   Heartbeats
	Policy       episode.Policy // the dispatcher over all engines
	Environments Environments
	Emit         telemetry.Emitter
	Tell         telemetry.Teller // for facts that no buffer script writes; activities may end before it does
	Now          func() time.Time
	Log          *slog.Logger
	DescribeGame GameDescriber // for the traces of games
	HangingCalls HangingCalls  // environments' calls that games of this process were left behind in
	GamesInPlay  GamesInPlay   // games of this process
	Ends         Ends

	servedModels servedModels
	gamesHere    gamesHere
}

// Validate reports every field that is not set. It is no method, because each of those is an activity.
func Validate(a *Activities) error {
	var faults []error
	fields := reflect.ValueOf(a).Elem()
	for i := range fields.NumField() {
		switch fields.Field(i).Kind() {
		case reflect.Interface, reflect.Func, reflect.Pointer:
			if fields.Field(i).IsNil() {
				faults = append(faults, fmt.Errorf("activities: %s is not set", fields.Type().Field(i).Name))
			}
		}
	}
	return errors.Join(faults...)
}

// GameDescriber is called with the context of each game's activity and the game that it plays.
type GameDescriber func(ctx context.Context, game rollout.EpisodeRef, version rollout.PolicyVersion)

// Buffer is what the activities need of the buffer.
type Buffer interface {
	Reopen(ctx context.Context, spec runspec.Spec) error
	SetLimits(ctx context.Context, run rollout.RunName, b runspec.BufferSpec, steps int, mirror int64) error
	SetVersion(ctx context.Context, run rollout.RunName, v rollout.PolicyVersion, by rollout.TrainerGeneration) error
	SaveStatus(ctx context.Context, s runstatus.RunStatus, mirror int64, facts ...telemetry.Event) error
	SaveEnd(ctx context.Context, s runstatus.RunStatus, mirror int64, facts ...telemetry.Event) error
	KeepListed(ctx context.Context, run rollout.RunName) error
	Status(ctx context.Context, run rollout.RunName) (runstatus.RunStatus, error)
	Unheard(ctx context.Context, run rollout.RunName, before rollout.GroupSeq) ([]rollout.GroupSeq, error)
	AccountSince(ctx context.Context, run rollout.RunName, step rollout.Step) (buffer.Account, error)
	Confirm(ctx context.Context, run rollout.RunName, era int64, replicationID string) (bool, error)
	Repair(ctx context.Context, run rollout.RunName, known buffer.Repair) (runstatus.Rollback, error)

	Queue(ctx context.Context, ref rollout.GroupRef, scenario []byte, version rollout.PolicyVersion,
		launchedAt time.Time) ([]byte, error)
	CommitGroup(ctx context.Context, g *rollout.Group) (buffer.Commit, error)
	Discard(ctx context.Context, ref rollout.GroupRef, code rollout.Code, phases ...int) error
	Release(ctx context.Context, ref rollout.GroupRef, code rollout.Code) (released bool, err error)

	Begin(ctx context.Context, game buffer.GameRef, started time.Time, attempt int) (buffer.Attempt, error)
	Excuse(ctx context.Context, game buffer.GameRef, number int) error
	InPlay(ctx context.Context, ref rollout.GroupRef) (bool, error)
	OpenJournal(ctx context.Context, ref rollout.EpisodeRef, attempt int) (buffer.Journal, error)
	Episodes(ctx context.Context, ref rollout.GroupRef, samples int) ([]rollout.Episode, error)

	AttemptFailed(ctx context.Context, t runstatus.FailedAttempt) error
	GameFinished(ctx context.Context, run rollout.RunName, now time.Time, counts map[string]int64) error
	GameAdvanced(ctx context.Context, run rollout.RunName, now time.Time) error
}

// Environments finds or builds the environment that a spec asks for. It may cache: environments are immutable.
type Environments func(runspec.Environment) (episode.Environment, error)

// Fleet is what the activities need of the engines.
type Fleet interface {
	List(ctx context.Context) ([]enginestate.Engine, error)
	Load(ctx context.Context, engine rollout.EngineID, adapter fleet.Adapter) (seconds float64, err error)
	// Unload takes an adapter off an engine and verifies that it is gone; ForgetLoads notes that it cannot come back.
	Unload(ctx context.Context, engine rollout.EngineID, name string) error
	ForgetLoads(ctx context.Context, engine rollout.EngineID, names ...string) error
	Want(ctx context.Context, adapter fleet.Adapter) error
	Unwant(ctx context.Context, name string) error
	// Wanted is every adapter that every engine must serve, of all runs.
	Wanted(ctx context.Context) ([]fleet.Adapter, error)
	// AskedToLoad lists the engines that were asked to load an adapter under a name, with the adapter.
	AskedToLoad(ctx context.Context, name string) (map[rollout.EngineID]fleet.LoadRecord, error)
	// Newest is the newest version of a run that serves; 0 before the first publication.
	Newest(ctx context.Context, run rollout.RunName) (rollout.PolicyVersion, error)
	// History is of the Redis that holds the fleet: another one after each restart and promotion. DoubtLoads says that
	// it has lost something.
	History(ctx context.Context) (string, error)
	DoubtLoads(ctx context.Context) error
	Keep(ctx context.Context, beat func()) error
	// Scaled is the state of a fleet that is scaled now; nil: it is not.
	Scaled(ctx context.Context) (*supply.View, error)
	// EndScaling records that the fleet is no longer scaled.
	EndScaling(ctx context.Context, at time.Time) error
}

// Ends deals with runs that were lost and runs that are to be deleted.
type Ends interface {
	// Watch works until ctx is done. Two that work at the same time do no harm.
	Watch(ctx context.Context)
}
