package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/redisscript"
)

const (
	trimEvery = 10 * time.Second
	// trimAtOnce bounds how long one call holds up Redis.
	trimAtOnce = 256
)

// KeepBounds trims repeatedly until ctx is done; every server may run it. Failures are passed to complain, and tried
// again.
func (s *Sink) KeepBounds(ctx context.Context, complain func(error)) {
	for retry.Pause(ctx, trimEvery) == nil {
		if err := s.Trim(ctx); err != nil && ctx.Err() == nil {
			complain(err)
		}
	}
}

// Trim drops shipped facts above the bounds for readers, and events of deleted runs that are all shipped. It looks at
// the open scopes, and finds out which of them are done.
func (s *Sink) Trim(ctx context.Context) error {
	awaited, err := s.isAwaited(ctx)
	if err != nil {
		return err
	}
	scopes, err := s.openScopes(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, scope := range scopes {
		if err := s.trimScope(ctx, scope, awaited); err != nil {
			faults = append(faults, fmt.Errorf("events of %q: %w", scope, err))
		}
	}
	return errors.Join(append(faults, s.closeAndErase(ctx), s.reopen(ctx))...)
}

// trimScript drops the oldest facts of a kind above a bound, at most so many, and none after an id. KEYS: the stream.
// ARGV: bound, how many, ms and sequence of the id, or ”. Answers how many were dropped.
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

func (s *Sink) trimScope(ctx context.Context, scope rollout.RunName, awaited bool) error {
	kinds, err := s.redis.SMembers(ctx, s.keys(scope).Kinds()).Result()
	if err != nil {
		return err
	}
	length := make([]*redis.IntCmd, len(kinds))
	_, err = s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, kind := range kinds {
			length[i] = p.XLen(ctx, s.keys(scope).Facts(kind))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, kind := range kinds {
		kept := s.limits.Of(kind).Kept
		if scope == store.Replayed {
			kept = 0 // readers have the event in the scope that it is of
		}
		if length[i].Val() <= kept {
			continue
		}
		upTo := []any{"", ""}
		if awaited {
			in, err := s.progressIn(ctx, scope)
			if err != nil {
				return err
			}
			ms, seq := store.SplitID(in[0].at.id)
			upTo = []any{ms, seq}
		}
		for n := int64(trimAtOnce); n == trimAtOnce; {
			args := append([]any{kept, trimAtOnce}, upTo...)
			if n, err = trimScript.Run(ctx, s.redis, []string{s.keys(scope).Facts(kind)}, args...).Int64(); err != nil {
				return err
			}
		}
	}
	return nil
}
