package runkeeper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/rollout"
)

// AbsentWorkers has the games of workers that are gone go on elsewhere. Temporal would find a death by the heartbeats
// of each game, and pay for every one of them; a worker announces itself once for all of its games.
type AbsentWorkers struct {
	Workers workerLister
	Runs    accounts
	Groups  gameReleaser
	Log     *slog.Logger

	looks map[string]int  // in a row that found a worker absent
	done  map[string]bool // absent workers whose games were released
}

// workerLister is the registry of workers.
type workerLister interface {
	List(ctx context.Context) ([]rollout.Worker, error)
}

// accounts is what AbsentWorkers needs of the buffer.
type accounts interface {
	Active(ctx context.Context) ([]rollout.RunStatus, error)
	Account(ctx context.Context, run rollout.RunName) (buffer.Account, error)
}

// gameReleaser is what AbsentWorkers needs of Temporal.
type gameReleaser interface {
	ReleaseGames(ctx context.Context, ref rollout.GroupRef, gone func(worker string) bool) (int, error)
}

const (
	absentEvery = time.Second
	// absentLooks in a row make a worker one that is gone: when Redis is back after a while nobody has announced itself
	// yet.
	absentLooks = 3
	// releaseAtOnce bounds the groups that are looked at together.
	releaseAtOnce = 16
)

// Watch works until ctx is done. Two that work at the same time do no harm.
func (a *AbsentWorkers) Watch(ctx context.Context) {
	a.looks, a.done = map[string]int{}, map[string]bool{}
	for retry.Pause(ctx, absentEvery) == nil {
		if err := a.look(ctx); err != nil && ctx.Err() == nil {
			a.Log.Warn("look for games of workers that are gone", "error", err)
		}
	}
}

// look releases the games of workers that were found to be gone since the last look.
func (a *AbsentWorkers) look(ctx context.Context) error {
	workers, err := a.Workers.List(ctx)
	if err != nil {
		clear(a.looks) // what Redis does not say is no absence
		return err
	}
	gone := a.gone(workers)
	if len(gone) == 0 {
		return nil
	}
	released, err := a.release(ctx, gone)
	if err != nil {
		return err
	}
	for _, id := range gone {
		a.done[id] = true
	}
	if released > 0 {
		a.Log.Warn("the games of workers that are gone go on elsewhere", "workers", gone, "games", released)
	}
	return nil
}

// gone is the workers that have been absent for several looks, and whose games were not released yet.
func (a *AbsentWorkers) gone(workers []rollout.Worker) []string {
	looks, done := map[string]int{}, map[string]bool{}
	var gone []string
	for _, w := range workers {
		if w.State != rollout.WorkerAbsent {
			continue
		}
		looks[w.ID], done[w.ID] = a.looks[w.ID]+1, a.done[w.ID]
		if looks[w.ID] >= absentLooks && !done[w.ID] {
			gone = append(gone, w.ID)
		}
	}
	a.looks, a.done = looks, done // those that came back, or that the registry has forgotten, begin anew
	return gone
}

// release ends the attempts of all games that are with these workers.
func (a *AbsentWorkers) release(ctx context.Context, gone []string) (int64, error) {
	runs, err := a.Runs.Active(ctx)
	if err != nil {
		return 0, err
	}
	isGone := func(worker string) bool { return slices.Contains(gone, worker) }
	var released atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(releaseAtOnce)
	for _, run := range runs {
		account, err := a.Runs.Account(ctx, run.Spec.Name)
		if err != nil {
			return released.Load(), errors.Join(err, g.Wait())
		}
		for _, seq := range slices.Concat(account.InFlight, account.Queued) {
			g.Go(func() error {
				n, err := a.Groups.ReleaseGames(ctx, rollout.GroupRef{Run: run.Spec.Name, Seq: seq}, isGone)
				released.Add(int64(n))
				return err
			})
		}
	}
	err = g.Wait()
	return released.Load(), err
}
