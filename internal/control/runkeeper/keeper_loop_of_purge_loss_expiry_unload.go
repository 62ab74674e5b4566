// Package runkeeper finds runs whose workflow is gone and games whose worker is, starts and completes evaluations,
// deletes runs at the end of their retention, and removes what deleted runs held. Start reading at Keeper.
package runkeeper

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/control/runcontrol"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/workflows"
)

// Keeper deals with the ends of runs. It runs beside the keeper of the fleet, so that only one worker of a deployment
// does so at a time.
type Keeper struct {
	Control   control
	Buffer    *buffer.Store
	Events    eventDeleter
	Retention func() Retention // in force now; nil: runs are kept until deleted by hand
	Pace      Pace
	Absent    *AbsentWorkers // nil: games of workers that are gone wait for Temporal to miss their heartbeats
	Log       *slog.Logger

	suspects map[rollout.RunName]time.Time // since when a run that is not over was seen without a workflow
	owners   map[rollout.RunName]time.Time // since when engines hold adapters of an ended run
	wanting  map[rollout.RunName]bool      // that may have a version to evaluate; nil: not known yet
}

// control is what a Keeper needs of the runs' workflows, and of their stand-in.
type control interface {
	Drive(ctx context.Context, run rollout.RunName) (workflows.Drive, error)
	Mark(ctx context.Context, run rollout.RunName) (runstatus.Mark, error)
	End(ctx context.Context, run rollout.RunName, state runstatus.RunState, reason string) (runstatus.RunStatus, error)
	Erase(ctx context.Context, run rollout.RunName) error
	AdapterOwners(ctx context.Context) ([]rollout.RunName, error)
	UnwantAdapters(ctx context.Context, run rollout.RunName) error
	Start(ctx context.Context, spec runspec.Spec) (status runstatus.RunStatus, started bool, err error)
	Change(ctx context.Context, run rollout.RunName, change spec.Change) (runstatus.RunStatus, error)
	BufferChanged(ctx context.Context, run rollout.RunName, mark runstatus.Mark) error
}

var _ control = runcontrol.Control{}

// eventDeleter is what a Keeper needs of the event store.
type eventDeleter interface {
	Delete(ctx context.Context, run rollout.RunName) error
}

// Pace is how often runs are looked at, and how patiently: a run whose workflow has ended without it, or is not
// there, is lost when that is so for a while. Between making a run known and starting its workflow a server may
// take long.
type Pace struct {
	Every   time.Duration
	Ended   time.Duration // the patience when its workflow was ended
	Missing time.Duration // the patience when Temporal does not know it
}

// DefaultPace is the pace of a worker. docs/runs.md says how long the loss of a run may go unnoticed with it.
func DefaultPace() Pace {
	return Pace{Every: 5 * time.Second, Ended: 15 * time.Second, Missing: 60 * time.Second}
}

// Watch works until ctx is done.
func (k *Keeper) Watch(ctx context.Context) {
	k.suspects, k.owners = map[rollout.RunName]time.Time{}, map[rollout.RunName]time.Time{}
	if k.Absent != nil {
		var looking sync.WaitGroup
		looking.Go(func() { k.Absent.Watch(ctx) })
		defer looking.Wait()
	}
	for retry.Pause(ctx, k.Pace.Every) == nil {
		for _, duty := range []struct {
			what string
			do   func(context.Context) error
		}{
			{"remove what deleted runs held", k.purge},
			{"look for lost runs", k.lookForLost},
			{"start evaluations of versions", k.startEvaluations},
			{"complete the steps of evaluations", k.completeEvaluations},
			{"delete runs that are kept no longer", k.expire},
			{"let engines unload adapters of runs that are over", k.unwantOver},
		} {
			if err := duty.do(ctx); err != nil && ctx.Err() == nil {
				k.Log.Warn(duty.what, "error", err)
			}
		}
	}
}
