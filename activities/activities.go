// Package activities is the side effects that workflows ask for: playing episodes, committing
// groups to the buffer, loading adapters on engines, keeping the fleet. Each one is idempotent,
// because Temporal may run it again; each takes one input and returns one result, so that both
// can grow. Failures carry their kind: see failure.go. Start reading at Activities, then PlayEpisode.
package activities

import (
	"context"
	"log/slog"
	"time"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
)

// Activities holds what the side effects need. Its methods are registered with a Temporal worker.
type Activities struct {
	Buffer       Buffer
	Fleet        Fleet
	Groups       Groups         // nil: no group is ever looked for
	Policy       episode.Policy // the dispatcher over all engines
	Environments Environments
	Emit         telemetry.Emitter
	Now          func() time.Time
	Log          *slog.Logger
	Hanging      Hanging // environments' calls that games of this process were left behind in
}

// Buffer is what the activities need of the buffer.
type Buffer interface {
	Open(ctx context.Context, spec rollout.Spec) error
	SetLimits(ctx context.Context, run rollout.RunName, b rollout.BufferSpec, steps int) error
	SetVersion(ctx context.Context, run rollout.RunName, v rollout.PolicyVersion) error
	SaveStatus(ctx context.Context, s rollout.RunStatus) error
	Restore(ctx context.Context, status rollout.RunStatus) (restored bool, err error)
	Account(ctx context.Context, run rollout.RunName) (buffer.Account, error)

	Queue(ctx context.Context, ref rollout.GroupRef, scenario []byte, version rollout.PolicyVersion, launchedAt time.Time) ([]byte, error)
	CommitGroup(ctx context.Context, g *rollout.Group) (buffer.Commit, error)
	Discard(ctx context.Context, ref rollout.GroupRef, code string) error
	Release(ctx context.Context, ref rollout.GroupRef, code string) (released bool, err error)

	SaveCheckpoint(ctx context.Context, ref rollout.EpisodeRef, attempt int, cp buffer.Checkpoint) error
	LoadCheckpoint(ctx context.Context, ref rollout.EpisodeRef) (buffer.Checkpoint, bool, error)
	SaveAnswer(ctx context.Context, ref rollout.EpisodeRef, attempt int, agent string, a buffer.Answer) error
	Answers(ctx context.Context, ref rollout.EpisodeRef) (map[string]buffer.Answer, error)
	SaveEpisode(ctx context.Context, ref rollout.EpisodeRef, attempt int, ep rollout.Episode, game []byte) error
	Episodes(ctx context.Context, ref rollout.GroupRef, samples int) ([]rollout.Episode, error)
}

// Environments finds or builds the environment that a spec asks for. It may cache: environments are immutable.
type Environments func(rollout.Environment) (episode.Environment, error)
