package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/redisscript"
	"github.com/millrace/millrace/internal/rollout"
)

// A scope is open while something may be left to do there: events that a sink has not got, or more of them than readers
// need. The scopes of runs that go on are open, those of runs that ended and are not wound up yet or are deleted and
// hold something, and those that are noted: whoever writes an event notes its scope. Trim finds out which scopes are
// done. Only those that are open are looked at again and again, however many there are.
//
// A script that changes a run writes its facts, too, and can note nothing, for the run may be on another node than the
// notes. So some of the scopes that are done are compared with what was written there, at each Trim.

// openScopes is the fleet and all scopes that are open, by name.
func (s *Store) openScopes(ctx context.Context) ([]rollout.RunName, error) {
	active, err := s.runs.Active(ctx)
	if err != nil {
		return nil, fmt.Errorf("list scopes of events: %w", err)
	}
	all, err := s.windingScopes(ctx)
	return sorted(append(all, active...)), err
}

// windingScopes is the fleet and the scopes that are open but those of runs that go on.
func (s *Store) windingScopes(ctx context.Context) ([]rollout.RunName, error) {
	all := []rollout.RunName{"", Replayed}
	for _, list := range []func(context.Context) ([]rollout.RunName, error){
		s.runs.Winding, s.runs.Deleting, s.notedScopes,
	} {
		names, err := list(ctx)
		if err != nil {
			return nil, fmt.Errorf("list scopes of events: %w", err)
		}
		all = append(all, names...)
	}
	return all, nil
}

// allScopes is every scope that may hold events, by name.
func (s *Store) allScopes(ctx context.Context) ([]rollout.RunName, error) {
	all, err := s.windingScopes(ctx)
	if err != nil {
		return nil, err
	}
	runs, err := s.runs.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("list scopes of events: %w", err)
	}
	return sorted(append(all, runs...)), nil
}

func sorted(names []rollout.RunName) []rollout.RunName {
	slices.Sort(names)
	return slices.Compact(names)
}

// scopesKey is the set of the scopes that are noted. doneKey is a sorted set of those that are done, by a number that
// grows with each; doneLastKey a hash: the id of a scope's last event then.
func (s *Store) scopesKey() string   { return scopesKey(s.prefix) }
func (s *Store) doneKey() string     { return s.scope("") + "done" }
func (s *Store) doneLastKey() string { return s.scope("") + "done-last" }
func (s *Store) doneNumber() string  { return s.scope("") + "done-number" }

func scopesKey(prefix string) string { return prefix + ":event-scopes" }

func (s *Store) notedScopes(ctx context.Context) ([]rollout.RunName, error) {
	names, err := s.rdb.SMembers(ctx, s.scopesKey()).Result()
	if err != nil {
		return nil, fmt.Errorf("list scopes of events: %w", err)
	}
	runs := make([]rollout.RunName, len(names))
	for i, name := range names {
		runs[i] = rollout.RunName(name)
	}
	return runs, nil
}

// NoteScope notes that there may be events in the scope of a run, where events are kept under a prefix.
func NoteScope(ctx context.Context, rdb redis.UniversalClient, prefix string, run rollout.RunName) error {
	if run == "" {
		return nil
	}
	if err := rdb.SAdd(ctx, scopesKey(prefix), string(run)).Err(); err != nil {
		return fmt.Errorf("note a scope of events: %w", err)
	}
	return nil
}

func (s *Store) noteScope(ctx context.Context, run rollout.RunName) error {
	return NoteScope(ctx, s.rdb, s.prefix, run)
}

// doneScript. KEYS: done, its last ids, its number. ARGV: scope, id of its last event.
var doneScript = redisscript.New(`
redis.call('ZADD', KEYS[1], redis.call('INCR', KEYS[3]), ARGV[1])
return redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])`)

// closeScopes finds out which of the noted scopes are done: those of runs that are over and wound up, of which every
// sink has got everything. A sink that came meanwhile may have opened them all again before.
func (s *Store) closeScopes(ctx context.Context, sinks []string) error {
	noted, err := s.notedScopes(ctx)
	if err != nil || len(noted) == 0 {
		return err
	}
	busy := map[rollout.RunName]bool{}
	for _, list := range []func(context.Context) ([]rollout.RunName, error){s.runs.Active, s.runs.Winding} {
		names, err := list(ctx)
		if err != nil {
			return err
		}
		for _, name := range names {
			busy[name] = true
		}
	}
	for _, run := range noted {
		if busy[run] {
			continue
		}
		if err := s.closeScope(ctx, run, sinks); err != nil {
			return fmt.Errorf("events of %q: %w", run, err)
		}
	}
	now, err := s.Sinks(ctx)
	if err != nil || slices.ContainsFunc(now, func(sink string) bool { return !slices.Contains(sinks, sink) }) {
		return errors.Join(err, s.reopenAll(ctx))
	}
	return nil
}

// closeScope takes the scope of a run from those that are noted, if it is done. A run that was deleted is left to
// eraseShipped. The note is written again if something was written meanwhile.
func (s *Store) closeScope(ctx context.Context, run rollout.RunName, sinks []string) error {
	known, err := s.runs.Has(ctx, run)
	if err != nil || !known {
		return err
	}
	end, err := s.scopeEnd(ctx, run)
	if err != nil {
		return err
	}
	shipped, err := s.isShipped(ctx, run, end, sinks)
	if err != nil || !shipped {
		return err
	}
	keys := []string{s.doneKey(), s.doneLastKey(), s.doneNumber()}
	if err := doneScript.Run(ctx, s.rdb, keys, string(run), end.last).Err(); err != nil {
		return err
	}
	if err := s.rdb.SRem(ctx, s.scopesKey(), string(run)).Err(); err != nil {
		return err
	}
	now, err := s.scopeEnd(ctx, run)
	if err != nil || now.last != end.last {
		return errors.Join(err, s.noteScope(ctx, run))
	}
	return nil
}

// forgetDone forgets that a scope is done, because it is erased.
func (s *Store) forgetDone(ctx context.Context, run rollout.RunName) error {
	_, err := s.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.ZRem(ctx, s.doneKey(), string(run))
		p.HDel(ctx, s.doneLastKey(), string(run))
		return nil
	})
	return err
}

// lookAgainAt is how many scopes that are done are looked at again at each Trim.
const lookAgainAt = 16

// reopen notes those of some scopes that are done in which something was written since. Each call looks at others.
func (s *Store) reopen(ctx context.Context) error {
	done, err := s.rdb.ZCard(ctx, s.doneKey()).Result()
	if err != nil || done == 0 {
		return err
	}
	from := int64(0)
	if done > lookAgainAt {
		from = s.lookedAgain.Add(lookAgainAt) % done
	}
	names, err := s.rdb.ZRange(ctx, s.doneKey(), from, from+lookAgainAt-1).Result()
	if err != nil || len(names) == 0 {
		return err
	}
	was, err := s.rdb.HMGet(ctx, s.doneLastKey(), names...).Result()
	if err != nil {
		return err
	}
	last := make([]*redis.StringCmd, len(names))
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range names {
			last[i] = p.HGet(ctx, s.writtenKey(rollout.RunName(name)), "last")
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for i, name := range names {
		if before, known := was[i].(string); known && before != last[i].Val() {
			if err := s.noteScope(ctx, rollout.RunName(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// reopenAll notes all scopes that are done: there is a sink that may not have got everything.
func (s *Store) reopenAll(ctx context.Context) error {
	names, err := s.rdb.ZRange(ctx, s.doneKey(), 0, -1).Result()
	if err != nil {
		return err
	}
	for portion := range slices.Chunk(names, 1000) {
		if err := s.rdb.SAdd(ctx, s.scopesKey(), portion).Err(); err != nil {
			return err
		}
	}
	return nil
}
