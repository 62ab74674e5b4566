package runkeeper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/buffer"
)

// AbsentWorkers has the games of workers that are gone go on elsewhere. Temporal would find a death by the heartbeats
// of each game, and pay for every one of them; a worker announces itself once for all of its games.
type AbsentWorkers struct {
	Workers workerLister
	Redis   historian
	Runs    accounts
	Groups  gameReleaser
	Log     *slog.Logger

	looks map[string]int  // in a row that found a worker absent
	known map[string]bool // workers that were listed
	// history is that of the registry's Redis, and unsure the number of looks since it changed: a new Redis may have
	// forgotten workers that this process has never seen.
	history string
	unsure  int
	owed    bool // games could not be released
}

// historian tells which history a Redis has: another one after each restart and promotion.
type historian interface {
	History(ctx context.Context) (string, error)
}

// workerLister is the registry of workers.
type workerLister interface {
	List(ctx context.Context) ([]enginestate.Worker, error)
}

// accounts is what AbsentWorkers needs of the buffer.
type accounts interface {
	RecentlyActive(ctx context.Context) ([]runstatus.RunStatus, error)
	Account(ctx context.Context, run rollout.RunName) (buffer.Account, error)
}

// gameReleaser is what AbsentWorkers needs of Temporal.
type gameReleaser interface {
	ReleaseGames(ctx context.Context, ref rollout.GroupRef, gone func(worker string) bool) (int, error)
}

const (
	absentEvery = time.Second
	// A worker counts as gone after absentLooks in a row: when Redis is back after a while, workers need time to
	// announce themselves.
	absentLooks = 3
	// unsureLooks after Redis has become another one, who lives has announced itself there, also if its calls hung.
	unsureLooks = 10
	// releasedFor is for how many looks the games of a worker that is gone are released again, more and more rarely. An
	// account that came back older does not know all groups in play until it is repaired, and Temporal may have given a
	// game to a dying worker. After that, missed heartbeats end the games.
	releasedFor = 60
	// forgottenMost bounds the groups that are looked at for being forgotten, before the highest known one and after it.
	forgottenMost = 256
	// releaseAtOnce bounds the groups that are looked at together.
	releaseAtOnce = 16
)

// Watch works until ctx is done. Two that work at the same time do no harm.
func (a *AbsentWorkers) Watch(ctx context.Context) {
	a.looks, a.known, a.history, a.unsure, a.owed = map[string]int{}, map[string]bool{}, "", 0, false
	for retry.Pause(ctx, absentEvery) == nil {
		if err := a.look(ctx); err != nil && ctx.Err() == nil {
			a.Log.Warn("look for games of workers that are gone", "error", err)
		}
	}
}

// look releases the games of workers that are gone, where that is due.
func (a *AbsentWorkers) look(ctx context.Context) error {
	workers, err := a.Workers.List(ctx)
	var history string
	if err == nil {
		history, err = a.Redis.History(ctx)
	}
	if err != nil {
		clear(a.looks) // what Redis does not say is no absence
		a.unsure = 0
		return err
	}
	if a.unsure++; history != a.history {
		a.history, a.unsure = history, 1
	}
	due, gone := a.gone(workers)
	if !due && !a.owed && !isDue(a.unsure, unsureLooks) {
		return nil
	}
	released, err := a.release(ctx, gone)
	if a.owed = err != nil; a.owed {
		return err
	}
	if released > 0 {
		a.Log.Warn("the games of workers that are gone go on elsewhere", "games", released)
	}
	return nil
}

// gone says which workers are gone, and whether the games of one of them are to be released now.
func (a *AbsentWorkers) gone(workers []enginestate.Worker) (due bool, gone func(worker string) bool) {
	listed, absent := map[string]bool{}, map[string]int{}
	for _, w := range workers {
		listed[w.ID] = true
		if w.State == enginestate.WorkerAbsent {
			absent[w.ID] = a.looks[w.ID] + 1
		}
	}
	for id := range a.known {
		if looks := a.looks[id] + 1; !listed[id] && looks <= releasedFor {
			absent[id] = looks // Redis has forgotten it
			listed[id] = true
		}
	}
	for _, looks := range absent {
		due = due || isDue(looks, absentLooks)
	}
	a.looks, a.known = absent, listed
	unsure := a.unsure
	return due, func(worker string) bool {
		return absent[worker] >= absentLooks || !listed[worker] && unsure >= unsureLooks && worker != ""
	}
}

// isDue reports whether what is true for so many looks is acted upon: first after some, and then the more rarely the
// longer it is true.
func isDue(looks, first int) bool {
	for ; first <= releasedFor; first *= 2 {
		if looks == first {
			return true
		}
	}
	return false
}

// release ends the attempts of all games that are with these workers.
func (a *AbsentWorkers) release(ctx context.Context, gone func(worker string) bool) (int64, error) {
	runs, err := a.Runs.RecentlyActive(ctx)
	if err != nil {
		return 0, err
	}
	var released atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(releaseAtOnce)
	for _, run := range runs {
		account, err := a.Runs.Account(ctx, run.Spec.Name)
		if err != nil {
			return released.Load(), errors.Join(err, g.Wait())
		}
		for _, seq := range a.inPlay(run.Spec.Buffer, account) {
			g.Go(func() error {
				n, err := a.Groups.ReleaseGames(ctx, rollout.GroupRef{Run: run.Spec.Name, Seq: seq}, gone)
				released.Add(int64(n))
				return err
			})
		}
	}
	err = g.Wait()
	return released.Load(), err
}

// inPlay is the groups that may have games in play: those of the account and, where Redis may have come back older,
// those that it may have forgotten. A run whose trainer was told nothing since has no account repaired, so that the
// account never hears of them again.
func (a *AbsentWorkers) inPlay(limits runspec.BufferSpec, account buffer.Account) []rollout.GroupSeq {
	seqs := slices.Concat(account.InFlight, account.Queued)
	if a.unsure > releasedFor {
		return seqs
	}
	known := slices.Concat(seqs, account.Ready)
	slices.Sort(known)
	most := rollout.GroupSeq(min(limits.Depth*limits.GroupsPerStep, forgottenMost))
	for seq := max(0, account.Highest+1-most); seq <= account.Highest+most; seq++ {
		if _, found := slices.BinarySearch(known, seq); !found {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}
