package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/redisscript"
	"github.com/millrace/millrace/internal/rollout"
)

const (
	// scopeForgotten is when what was not shipped of a deleted run goes all the same, and is counted as lost.
	scopeForgotten = 30 * 24 * time.Hour
	// unknownScope is how long a scope is left alone that no run has: one may be about to begin.
	unknownScope = 24 * time.Hour
)

// Delete gives a run's events up: they go when every sink has got them.
func (s *Store) Delete(ctx context.Context, run rollout.RunName) error {
	if err := s.rdb.SAdd(ctx, s.scopesKey(), string(run)).Err(); err != nil {
		return err
	}
	sinks, err := s.Sinks(ctx)
	if err != nil {
		return err
	}
	end, err := s.scopeEnd(ctx, run)
	if err != nil {
		return err
	}
	return s.eraseScope(ctx, run, end, sinks)
}

// scopeEnd says how far a scope has got: the ids of its first event and of the last. Both empty: it has none.
type scopeEnd struct{ first, last string }

func (s *Store) scopeEnd(ctx context.Context, scope rollout.RunName) (scopeEnd, error) {
	ids, err := s.rdb.HMGet(ctx, s.writtenKey(scope), "first", "last").Result()
	if err != nil {
		return scopeEnd{}, fmt.Errorf("end of the events of %q: %w", scope, err)
	}
	first, _ := ids[0].(string) // missing is empty
	last, _ := ids[1].(string)
	return scopeEnd{first, last}, nil
}

// isShipped reports whether every one of some sinks has got what was written in a scope up to its end.
func (s *Store) isShipped(ctx context.Context, scope rollout.RunName, end scopeEnd, sinks []string) (bool, error) {
	if end.last == "" || len(sinks) == 0 {
		return true, nil
	}
	ms, seq, err := s.shippedTo(ctx, scope, sinks)
	return err == nil && !earlier(ms+"-"+seq, end.last), err
}

// eraseShipped forgets the scopes that are kept only for what was not shipped, and is.
func (s *Store) eraseShipped(ctx context.Context, sinks []string) error {
	noted, err := s.notedScopes(ctx)
	if err != nil {
		return err
	}
	now, err := s.now(ctx)
	if err != nil {
		return err
	}
	for _, run := range noted {
		known, err := s.runs.Has(ctx, run)
		if err != nil {
			return err
		}
		if known {
			continue
		}
		gone, err := s.rdb.Exists(ctx, s.goneKey(run)).Result()
		if err != nil {
			return err
		}
		end, err := s.scopeEnd(ctx, run)
		if err != nil {
			return err
		}
		ms, _ := split(end.last)
		age := now.Sub(time.UnixMilli(int64(ms)))
		if end.last != "" && gone == 0 && age < unknownScope {
			continue // it may be about to begin
		}
		waitFor := sinks
		if end.last != "" && age > scopeForgotten {
			waitFor = nil
		}
		if err := s.eraseScope(ctx, run, end, waitFor); err != nil {
			return fmt.Errorf("erase the events of %q: %w", run, err)
		}
	}
	return s.countErased(ctx)
}

// eraseScript removes a scope's events if nothing was written since somebody has looked. KEYS: written, then what is to
// go. ARGV: the id of the last event then, or ”. Answers whether they are gone.
var eraseScript = redisscript.New(`
local last = redis.call('HGET', KEYS[1], 'last')
if last and last ~= ARGV[1] then return 0 end
redis.call('UNLINK', unpack(KEYS))
return 1`)

// eraseScope removes a scope in which nothing was written since end was read, if every one of some sinks has got
// everything. What is counted in the scope is noted with the sinks first (see sink_counts.go). The scope's name goes
// before its events do; who writes one notes the name again afterwards.
func (s *Store) eraseScope(ctx context.Context, run rollout.RunName, end scopeEnd, waitFor []string) error {
	shipped, err := s.isShipped(ctx, run, end, waitFor)
	if err != nil || !shipped {
		return err
	}
	known, err := s.knownSinks(ctx)
	if err != nil {
		return err
	}
	kinds, err := s.rdb.SMembers(ctx, s.kindsKey(run)).Result()
	if err != nil {
		return err
	}
	keys := []string{s.writtenKey(run), s.recentKey(run), s.factsKey(run), s.kindsKey(run), s.scope(run) + "told"}
	for _, kind := range kinds {
		keys = append(keys, s.kindKey(run, kind))
	}
	for _, sink := range known {
		keys = append(keys, s.cursorKey(run, sink))
		if end.last == "" {
			continue
		}
		if err := s.noteErased(ctx, sink, run, end); err != nil {
			return err
		}
	}
	if err := s.forgetDone(ctx, run); err != nil {
		return err
	}
	if err := s.rdb.SRem(ctx, s.scopesKey(), string(run)).Err(); err != nil {
		return err
	}
	gone, err := eraseScript.Run(ctx, s.rdb, keys, end.last).Int()
	if err == nil && gone == 0 {
		err = s.rdb.SAdd(ctx, s.scopesKey(), string(run)).Err()
	}
	return err
}

// knownSinks names all sinks that there ever were.
func (s *Store) knownSinks(ctx context.Context) ([]string, error) {
	fields, err := s.rdb.HKeys(ctx, s.sinksKey()).Result()
	if err != nil {
		return nil, fmt.Errorf("list sinks: %w", err)
	}
	var sinks []string
	for _, name := range fields {
		if sink, is := strings.CutPrefix(name, "since "); is {
			sinks = append(sinks, sink)
		}
	}
	return sinks, nil
}

// countErased takes what was counted in scopes that are erased into the sums of their sinks, once, whoever noted it.
func (s *Store) countErased(ctx context.Context) error {
	fields, err := s.rdb.HGetAll(ctx, s.sinksKey()).Result()
	if err != nil {
		return fmt.Errorf("count what is erased: %w", err)
	}
	var faults []error
	for field, value := range fields {
		note, is := readErased(field, value)
		if !is {
			continue
		}
		end, err := s.scopeEnd(ctx, note.scope)
		if err == nil {
			erased := 1
			if end.first == note.first {
				erased = 0 // it was not, after all
			}
			err = foldScript.Run(ctx, s.rdb, []string{s.sinksKey()}, field, value, erased, note.sink, note.passed,
				note.lostFacts, note.lostSamples).Err()
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
