package buffer

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Runs is the status of every run, by name.
func (s *Store) Runs(ctx context.Context) ([]runstatus.RunStatus, error) {
	names, err := s.runs.All(ctx)
	if err != nil {
		return nil, trouble("list runs", err)
	}
	return s.statuses(ctx, names)
}

// Active is the status of every run that is not over, by name. However many runs have ended, it reads those that go
// on only.
func (s *Store) Active(ctx context.Context) ([]runstatus.RunStatus, error) {
	names, err := s.runs.Active(ctx)
	if err != nil {
		return nil, trouble("list runs", err)
	}
	runs, err := s.statuses(ctx, names)
	if err != nil {
		return nil, err
	}
	if len(runs) < len(names) {
		for _, name := range names {
			if slices.ContainsFunc(runs, func(run runstatus.RunStatus) bool { return run.Spec.Name == name }) {
				continue
			}
			if err := s.unlistDeleted(ctx, name); err != nil {
				return nil, err
			}
		}
	}
	for _, run := range runs {
		if run.State.Over() { // its end was not noted yet
			if err := s.note(ctx, run); err != nil {
				return nil, err
			}
		}
	}
	return slices.DeleteFunc(runs, func(run runstatus.RunStatus) bool { return run.State.Over() }), nil
}

// RunsPage lists up to limit of the runs that may be seen, after the run named after, which is over: active runs by
// name, then ended ones, latest first. next begins the next page; empty: this is the last. Nothing that is answered
// depends on a run that may not be seen.
func (s *Store) RunsPage(ctx context.Context, after rollout.RunName, limit int,
	seen func(rollout.RunName) bool) (runs []runstatus.RunStatus, next rollout.RunName, err error) {
	if after == "" {
		if runs, err = s.Active(ctx); err != nil {
			return nil, "", err
		}
		runs = slices.DeleteFunc(runs, func(run runstatus.RunStatus) bool { return !seen(run.Spec.Name) })
		limit = max(1, limit-len(runs)) // they are few: a deployment bounds them
	}
	over, next, err := s.EndedRuns(ctx, after, limit, seen)
	return append(runs, over...), next, err
}

// namesAtOnce is how many names of runs that are over are read at a time, where the first ones may not all be seen.
const namesAtOnce = 500

// EndedRuns lists up to limit of the runs that are over and may be seen, the latest first, after the run named after;
// empty: from the latest. next begins the next page; empty: this is the last.
func (s *Store) EndedRuns(ctx context.Context, after rollout.RunName, limit int,
	seen func(rollout.RunName) bool) (over []runstatus.RunStatus, next rollout.RunName, err error) {
	var names []rollout.RunName
	for last, atOnce := after, limit+1; len(names) <= limit; atOnce = namesAtOnce {
		page, found, err := s.runs.NewestEnded(ctx, last, atOnce)
		switch {
		case err != nil:
			return nil, "", trouble("list runs", err)
		case !found || after != "" && !seen(after):
			return nil, "", rollout.Refuse(rollout.Invalid, "after: run %s is not among those that are over, or not any more: "+
				"list the runs from the first one", after)
		}
		for _, name := range page {
			if seen(name) {
				names = append(names, name)
			}
		}
		if len(page) < atOnce {
			break
		}
		last = page[len(page)-1]
	}
	if len(names) > limit {
		names = names[:limit]
		next = names[limit-1]
	}
	if over, err = s.statuses(ctx, slices.Clone(names)); err != nil {
		return nil, "", err
	}
	place := map[rollout.RunName]int{}
	for i, name := range names {
		place[name] = i
	}
	slices.SortFunc(over, func(a, b runstatus.RunStatus) int { return place[a.Spec.Name] - place[b.Spec.Name] })
	return over, next, nil
}

// Winding is the runs that are over and not wound up: their last waits and tokens may not be told of yet.
func (s *Store) Winding(ctx context.Context) ([]rollout.RunName, error) {
	runs, err := s.runs.Winding(ctx)
	if err != nil {
		return nil, trouble("list runs that have ended", err)
	}
	slices.Sort(runs)
	return runs, nil
}

// Expired is up to limit runs that have been over since before a time, or that ended before the newest so many that
// did and before another time. Those that ended first are first.
func (s *Store) Expired(ctx context.Context, before time.Time, newest int, ofThoseBefore time.Time,
	limit int) ([]rollout.RunName, error) {
	var expired []rollout.RunName
	var err error
	if !before.IsZero() {
		if expired, err = s.runs.EndedBefore(ctx, before, limit); err != nil {
			return nil, trouble("list runs that have ended", err)
		}
	}
	if newest > 0 && len(expired) < limit {
		beyond, err := s.runs.EndedBeyond(ctx, newest, limit)
		if err != nil {
			return nil, trouble("list runs that have ended", err)
		}
		if len(beyond) <= len(expired) { // both begin with the run that ended first
			return expired, nil
		}
		early, err := s.runs.EndedBefore(ctx, ofThoseBefore, len(beyond))
		if err != nil {
			return nil, trouble("list runs that have ended", err)
		}
		if len(early) > len(expired) {
			expired = early
		}
	}
	return expired, nil
}

// listAtOnce bounds how many runs are read in one call of Redis.
const listAtOnce = 256

func (s *Store) statuses(ctx context.Context, names []rollout.RunName) ([]runstatus.RunStatus, error) {
	slices.Sort(names)
	runs := make([]runstatus.RunStatus, 0, len(names))
	for portion := range slices.Chunk(names, listAtOnce) {
		found := make([]*redis.SliceCmd, len(portion))
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, name := range portion {
				found[i] = p.HMGet(ctx, s.key(name, "run"), "status", "spec")
			}
			return nil
		})
		if err != nil {
			return nil, trouble("list runs", err)
		}
		for i, name := range portion {
			status, err := statusOf(name, reply(found[i].Val()))
			if rollout.Refused(err, rollout.NoSuchRun) {
				continue // deleted meanwhile
			}
			if err != nil {
				return nil, err
			}
			runs = append(runs, status)
		}
	}
	return runs, nil
}
