package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/redisscript"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/rollout"
)

const (
	trimEvery = 10 * time.Second
	// SinkForgotten is when facts are no longer kept for a sink that nobody ships to any more.
	SinkForgotten = 7 * 24 * time.Hour
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
// has got everything. It looks at the scopes that are open, and finds out which of them are done.
func (s *Store) Trim(ctx context.Context) error {
	sinks, err := s.Sinks(ctx)
	if err != nil {
		return err
	}
	scopes, err := s.openScopes(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, scope := range scopes {
		if err := s.trimScope(ctx, scope, sinks); err != nil {
			faults = append(faults, fmt.Errorf("events of %q: %w", scope, err))
		}
	}
	if len(faults) == 0 {
		faults = append(faults, s.closeScopes(ctx, sinks))
	}
	return errors.Join(append(faults, s.eraseShipped(ctx, sinks), s.reopen(ctx))...)
}

// Sinks names the sinks that facts are kept for.
func (s *Store) Sinks(ctx context.Context) ([]string, error) {
	fields, err := s.rdb.HGetAll(ctx, s.sinksKey()).Result()
	if err != nil {
		return nil, fmt.Errorf("list sinks: %w", err)
	}
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	var sinks []string
	for name, at := range fields {
		sink, seen := strings.CutPrefix(name, "seen ")
		ms, _ := strconv.ParseInt(at, 10, 64)
		if seen && now.Sub(time.UnixMilli(ms)) < SinkForgotten {
			sinks = append(sinks, sink)
		}
	}
	return sinks, nil
}

// trimScript lets go of the oldest facts of a kind above a bound, at most so many, and none after an id. KEYS: the
// stream. ARGV: bound, how many, ms and sequence of the id, or ”. Answers how many went.
var trimScript = redisscript.New(`
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
		if scope == Replayed {
			kept = 0 // readers have the event in the scope that it is of
		}
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
