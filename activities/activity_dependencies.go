// Package activities is the side effects that workflows ask for: playing episodes, committing
// groups to the buffer, loading adapters on engines, keeping the fleet. Each one is idempotent,
// because Temporal may run it again; each takes one input and returns one result, so that both
// can grow. Failures carry their kind: see temporal_errors.go. Start reading at Activities, then PlayEpisode.
package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/millrace/millrace/internal/engine/adapterfiles"
	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
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
	SetLimits(ctx context.Context, run rollout.RunName, b runspec.BufferSpec, steps int, asOf time.Time) error
	SetVersion(ctx context.Context, run rollout.RunName, v rollout.PolicyVersion, by rollout.TrainerGeneration) error
	SaveStatus(ctx context.Context, s runstatus.RunStatus, asOf time.Time, facts ...telemetry.Event) error
	SaveEnd(ctx context.Context, s runstatus.RunStatus, asOf time.Time, facts ...telemetry.Event) error
	KeepListed(ctx context.Context, run rollout.RunName) error
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
	GameFinished(ctx context.Context, run rollout.RunName, counts map[string]int64) error
	GameAdvanced(ctx context.Context, run rollout.RunName) error
}

// Environments finds or builds the environment that a spec asks for. It may cache: environments are immutable.
type Environments func(runspec.Environment) (episode.Environment, error)
