package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/rollout"
)

const (
	trimEvery = 10 * time.Second
	// sinkForgotten is when facts are no longer kept for a sink that nobody ships to any more.
	sinkForgotten = 7 * 24 * time.Hour
	// scopeForgotten is when what was not shipped of a deleted run goes all the same.
	scopeForgotten = 30 * 24 * time.Hour
	// trimAtOnce bounds how long one call holds up Redis.
	trimAtOnce = 256
)

// KeepBounds lets go, again and again until ctx is done, of what readers need no more and every sink has got. Every
// server may do so. What fails is told to complain, and tried again.
func (s *Store) KeepBounds(ctx context.Context, complain func(error)) {
	for retry.Pause(ctx, trimEvery) == nil {
		if err := s.Trim(ctx); err != nil && ctx.Err() == nil {
			complain(err)
		}
	}
}

// Trim lets go of facts above the bounds for readers that every sink has got, and of deleted runs of which every sink
// has got everything.
func (s *Store) Trim(ctx context.Context) error {
	sinks, err := s.Sinks(ctx)
	if err != nil {
		return err
	}
	scopes, err := s.allScopes(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, scope := range scopes {
		if err := s.trimScope(ctx, scope, sinks); err != nil {
			faults = append(faults, fmt.Errorf("events of %q: %w", scope, err))
		}
	}
	return errors.Join(append(faults, s.eraseShipped(ctx, sinks))...)
}

// Sinks names the sinks that facts are kept for.
func (s *Store) Sinks(ctx context.Context) ([]string, error) {
	fields, err := s.rdb.HGetAll(ctx, s.sinksKey()).Result()
	if err != nil {
		return nil, fmt.Errorf("list sinks: %w", err)
	}
	var sinks []string
	for name, at := range fields {
		sink, seen := strings.CutPrefix(name, "seen ")
		ms, _ := strconv.ParseInt(at, 10, 64)
		if seen && time.Since(time.UnixMilli(ms)) < sinkForgotten {
			sinks = append(sinks, sink)
		}
	}
	return sinks, nil
}

// trimScript lets go of the oldest facts of a kind above a bound, at most so many, and none after an id. KEYS: the
// stream. ARGV: bound, how many, ms and sequence of the id, or ”. Answers how many went.
var trimScript = redis.NewScript(`
local over = math.min(redis.call('XLEN', KEYS[1]) - tonumber(ARGV[1]), tonumber(ARGV[2]))
if over <= 0 then return 0 end
local ids = {}
for _, row in ipairs(redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', over)) do
  local ms, seq = string.match(row[1], '^(%d+)-(%d+)$')
  ms, seq = tonumber(ms), tonumber(seq)
  if ARGV[3] ~= '' and (ms > tonumber(ARGV[3]) or ms == tonumber(ARGV[3]) and seq > tonumber(ARGV[4])) then break end
  ids[#ids + 1] = row[1]
end
if #ids == 0 then return 0 end
return redis.call('XTRIM', KEYS[1], 'MAXLEN', redis.call('XLEN', KEYS[1]) - #ids)`)

func (s *Store) trimScope(ctx context.Context, scope rollout.RunName, sinks []string) error {
	kinds, err := s.rdb.SMembers(ctx, s.kindsKey(scope)).Result()
	if err != nil {
		return err
	}
	length := make([]*redis.IntCmd, len(kinds))
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, kind := range kinds {
			length[i] = p.XLen(ctx, s.kindKey(scope, kind))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, kind := range kinds {
		kept := s.limits.of(kind).Kept
		if length[i].Val() <= kept {
			continue
		}
		ms, seq, err := s.shippedTo(ctx, scope, sinks)
		if err != nil {
			return err
		}
		for n := int64(trimAtOnce); n == trimAtOnce; {
			n, err = trimScript.Run(ctx, s.rdb, []string{s.kindKey(scope, kind)}, kept, trimAtOnce, ms, seq).Int64()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// shippedTo is the id up to which every sink has got the scope's events; empty where there are no sinks.
func (s *Store) shippedTo(ctx context.Context, scope rollout.RunName, sinks []string) (ms, seq string, err error) {
	lowest := ""
	for _, sink := range sinks {
		at, _, err := s.cursorAt(ctx, sink, scope)
		if err != nil {
			return "", "", err
		}
		if lowest == "" || earlier(at.id, lowest) {
			lowest = at.id
		}
	}
	ms, seq, _ = strings.Cut(lowest, "-")
	return ms, seq, nil
}

// Delete gives a run's events up: they go when every sink has got them.
func (s *Store) Delete(ctx context.Context, run rollout.RunName) error {
	if err := s.rdb.SAdd(ctx, s.scopesKey(), string(run)).Err(); err != nil {
		return err
	}
	sinks, err := s.Sinks(ctx)
	if err != nil {
		return err
	}
	return s.eraseScope(ctx, run, sinks)
}

// eraseShipped forgets the scopes that are kept only for what was not shipped, and is.
func (s *Store) eraseShipped(ctx context.Context, sinks []string) error {
	names, err := s.rdb.SMembers(ctx, s.scopesKey()).Result()
	if err != nil {
		return fmt.Errorf("list scopes of events: %w", err)
	}
	for _, name := range names {
		run := rollout.RunName(name)
		known, err := s.rdb.SIsMember(ctx, s.prefix+":runs", name).Result()
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
		last, err := s.rdb.HGet(ctx, s.writtenKey(run), "last").Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		ms, _ := split(last)
		age := time.Since(time.UnixMilli(int64(ms)))
		if gone == 0 && run != Replayed && age < 24*time.Hour {
			continue // it may be about to begin
		}
		waitFor := sinks
		if age > scopeForgotten {
			waitFor = nil
		}
		if err := s.eraseScope(ctx, run, waitFor); err != nil {
			return fmt.Errorf("erase the events of %q: %w", run, err)
		}
	}
	return nil
}

// eraseScript removes a scope's events if nothing was written after an id. KEYS: written, then what is to go. ARGV: ms
// and sequence of the id, or ”. Answers whether they are gone.
var eraseScript = redis.NewScript(`
local last = redis.call('HGET', KEYS[1], 'last')
if last and ARGV[1] ~= '' then
  local ms, seq = string.match(last, '^(%d+)-(%d+)$')
  ms, seq = tonumber(ms), tonumber(seq)
  if ms > tonumber(ARGV[1]) or ms == tonumber(ARGV[1]) and seq > tonumber(ARGV[2]) then return 0 end
end
redis.call('UNLINK', unpack(KEYS))
return 1`)

// eraseScope removes a scope, if every one of some sinks has got everything. The scope's name goes first: if an event
// comes meanwhile, either it is seen here, or whoever wrote it has noted the name again.
func (s *Store) eraseScope(ctx context.Context, run rollout.RunName, sinks []string) error {
	kinds, err := s.rdb.SMembers(ctx, s.kindsKey(run)).Result()
	if err != nil {
		return err
	}
	ms, seq, err := s.shippedTo(ctx, run, sinks)
	if err != nil {
		return err
	}
	if err := s.rdb.SRem(ctx, s.scopesKey(), string(run)).Err(); err != nil {
		return err
	}
	keys := []string{s.writtenKey(run), s.recentKey(run), s.factsKey(run), s.kindsKey(run), s.scope(run) + "told"}
	for _, kind := range kinds {
		keys = append(keys, s.kindKey(run, kind))
	}
	known, err := s.rdb.HGetAll(ctx, s.sinksKey()).Result()
	if err != nil {
		return err
	}
	for name := range known {
		if sink, is := strings.CutPrefix(name, "since "); is {
			keys = append(keys, s.cursorKey(run, sink))
		}
	}
	gone, err := eraseScript.Run(ctx, s.rdb, keys, ms, seq).Int()
	if err == nil && gone == 0 {
		err = s.rdb.SAdd(ctx, s.scopesKey(), string(run)).Err()
	}
	return err
}
