package bufferload

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/engine/tokenrates"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/buffer"
)

// prefix is of every key, so that a Redis that is used for something else can be loaded, too.
const prefix = "millrace-bench-buffer"

// done counts what the load has done.
type done struct{ turns, games, groups, steps atomic.Int64 }

// worker stands for a worker process: what its games write is sent together.
type worker struct {
	id     string
	rdb    redis.UniversalClient
	buffer *buffer.Store
	acts   *activities.Activities

	registry *workerregistry.Registry
	tokens   *tokenrates.Counts
	turns    atomic.Int64 // of its games
}

func newWorker(id string, rdb redis.UniversalClient) *worker {
	w := &worker{id: id, rdb: rdb, buffer: buffer.New(rdb, buffer.Options{Prefix: prefix}),
		registry: workerregistry.New(rdb, prefix, time.Now), tokens: tokenrates.New(rdb, prefix)}
	w.acts = &activities.Activities{Buffer: w.buffer, Groups: noRuns{}, Now: time.Now, Emit: telemetry.Discard,
		Tell: telemetry.Discard, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	return w
}

// noRuns is a Temporal without workflows: nobody hears of a group.
type noRuns struct{ activities.Groups }

func (noRuns) TellEnd(context.Context, rollout.RunName, activities.GroupEnd) error { return nil }

// gameLoad is the games of one run.
type gameLoad struct {
	cfg      Config
	run      rollout.RunName
	scenario []byte
	games    []recordedGame
	done     *done
	version  atomic.Int64 // newest policy version
	next     atomic.Int64 // number of the group that is launched next
}

// play keeps as many groups in play as the rate needs, until the context ends. Each begins at another time, so that
// not all are at the same phase.
func (l *gameLoad) play(ctx context.Context, workers []*worker) error {
	n := l.cfg.groupsInPlay()
	playing, failed := errgroup.WithContext(ctx)
	game := time.Duration(l.cfg.Phases) * l.cfg.Phase
	for i := range n {
		playing.Go(func() error {
			if !pause(failed, game*time.Duration(i)/time.Duration(n)) {
				return nil
			}
			for failed.Err() == nil {
				if err := l.group(failed, workers); err != nil && failed.Err() == nil {
					return err
				}
			}
			return nil
		})
	}
	return playing.Wait()
}

// group plays one group as the workflow of a group and its activities do. Its games are anybody's.
func (l *gameLoad) group(ctx context.Context, workers []*worker) error {
	seq := l.next.Add(1) - 1
	ref := rollout.GroupRef{Run: l.run, Seq: rollout.GroupSeq(seq)}
	version := rollout.PolicyVersion(l.version.Load())
	launched := time.Now()
	home := workers[int(seq)%len(workers)]
	if _, err := home.buffer.Queue(ctx, ref, l.scenario, version, launched); err != nil {
		return fmt.Errorf("queue a group: %w", err)
	}
	games, failed := errgroup.WithContext(ctx)
	for sample := range l.cfg.Samples {
		at := workers[(int(seq)+sample)%len(workers)]
		games.Go(func() error { return l.game(failed, at, rollout.EpisodeRef{GroupRef: ref, Sample: sample}, version) })
	}
	if err := games.Wait(); err != nil {
		return err
	}
	_, err := home.acts.CommitGroup(ctx, activities.CommitInput{GroupPlan: activities.GroupPlan{
		Ref: ref, GroupSpec: runspec.GroupSpec{Samples: l.cfg.Samples, MinSamples: l.cfg.Samples}, Version: version,
		LaunchedAt: launched,
	}})
	if err != nil {
		return err
	}
	l.done.groups.Add(1)
	// The run compares its account with the buffer's when a group has ended.
	_, err = home.buffer.AccountSince(ctx, l.run, 0)
	return err
}

// game plays one game. Its answers come one by one, spread over each phase, as engines give them.
func (l *gameLoad) game(ctx context.Context, at *worker, ref rollout.EpisodeRef, version rollout.PolicyVersion) error {
	began := time.Now()
	attempt, err := at.buffer.Begin(ctx, buffer.GameRef{EpisodeRef: ref}, began, 1)
	if err != nil {
		return err
	}
	// PlayEpisode asks for its scenario again.
	if _, err := at.buffer.Queue(ctx, ref.GroupRef, nil, version, began); err != nil {
		return err
	}
	journal, err := at.buffer.OpenJournal(ctx, ref, attempt.Number)
	if err != nil {
		return err
	}
	defer journal.Close()
	told := l.games[ref.Sample].as(ref)
	for i := range told.phases {
		if err := l.phase(ctx, at, journal, told, i); err != nil {
			return err
		}
	}
	ep := told.finished(began, time.Now())
	if err := journal.End(ctx, ep, told.state); err != nil {
		return err
	}
	l.done.games.Add(1)
	return at.buffer.GameFinished(ctx, ref.Run, time.Now(), ep.Counts)
}

func (l *gameLoad) phase(ctx context.Context, at *worker, journal buffer.Journal, told retold, i int) error {
	answers := told.phases[i].answers
	when := make([]time.Duration, len(answers))
	for j := range when {
		when[j] = rand.N(l.cfg.Phase)
	}
	slices.Sort(when)
	when[len(when)-1] = l.cfg.Phase // the slowest is what a phase takes
	began := time.Now()
	for j, a := range answers {
		if !pause(ctx, when[j]-time.Since(began)) {
			return ctx.Err()
		}
		if err := journal.Answer(a.agent, a.answer); err != nil {
			return err
		}
		l.done.turns.Add(1)
		at.turns.Add(1)
	}
	return journal.Phase(ctx, told.phase(i))
}

// pause reports whether the context lasted as long.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
