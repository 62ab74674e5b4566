// Package runindex is which runs a deployment has in Redis: all of them, those that go on, those that are over with the
// time of their end, those that are over and not wound up yet, and those that were deleted and still hold something.
// However many runs are over, what is asked again and again costs what the others cost. It knows nothing else of runs.
//
// The keys but one share a hash slot, so that a script keeps them in agreement. Earlier versions keep the set of all
// runs and that of those that are over, and nothing else: what is missing of the others is derived from these two.
//
// Start reading at Index.
package runindex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/redisscript"
	"github.com/millrace/millrace/internal/rollout"
)

// Index is which runs there are, by their ids. Any number of processes may use the same one; every change may be made
// again.
type Index struct {
	rdb    redis.UniversalClient
	prefix string
}

// New is the index of the runs whose keys begin with a prefix.
func New(rdb redis.UniversalClient, prefix string) Index { return Index{rdb, prefix} }

// The keys:
//
//	runs      set of all runs
//	ended     set of those that are over
//	active    set of the others; listed: 1, once it was derived
//	winding   set of those that are over and not wound up
//	ends      sorted set of those that are over, by the time of their end in ms
//	deleting  set of runs that were deleted and still hold something
func (x Index) runs() string     { return x.prefix + ":runs" }
func (x Index) ended() string    { return "{" + x.runs() + "}:ended" }
func (x Index) active() string   { return "{" + x.runs() + "}:active" }
func (x Index) listed() string   { return "{" + x.runs() + "}:listed" }
func (x Index) winding() string  { return "{" + x.runs() + "}:winding" }
func (x Index) ends() string     { return "{" + x.runs() + "}:ends" }
func (x Index) deleting() string { return x.prefix + ":deleting" }

// openScript. KEYS: ended, runs, active. ARGV: run.
var openScript = redisscript.New(`
redis.call('SADD', KEYS[2], ARGV[1])
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then redis.call('SADD', KEYS[3], ARGV[1]) end
return 1`)

// Open adds a run.
func (x Index) Open(ctx context.Context, run rollout.RunName) error {
	return x.change(ctx, openScript, []string{x.ended(), x.runs(), x.active()}, run)
}

// endScript. KEYS: ended, runs, active, winding, ends. ARGV: run, ms. A run that was deleted meanwhile is none.
var endScript = redisscript.New(`
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 0 then return 0 end
if redis.call('SADD', KEYS[1], ARGV[1]) == 1 then redis.call('SADD', KEYS[4], ARGV[1]) end
redis.call('SREM', KEYS[3], ARGV[1])
redis.call('ZADD', KEYS[5], ARGV[2], ARGV[1])
return 1`)

// End notes that a run is over since a time. It is to be wound up.
func (x Index) End(ctx context.Context, run rollout.RunName, at time.Time) error {
	return x.change(ctx, endScript, []string{x.ended(), x.runs(), x.active(), x.winding(), x.ends()}, run, at.UnixMilli())
}

// reviveScript. KEYS: ended, runs, active, winding, ends. ARGV: run.
var reviveScript = redisscript.New(`
redis.call('SREM', KEYS[1], ARGV[1])
redis.call('SREM', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then redis.call('SADD', KEYS[3], ARGV[1]) end
return 1`)

// Revive notes that a run goes on that was taken for over.
func (x Index) Revive(ctx context.Context, run rollout.RunName) error {
	return x.change(ctx, reviveScript, []string{x.ended(), x.runs(), x.active(), x.winding(), x.ends()}, run)
}

// removeScript. KEYS: ended, runs, active, winding, ends. ARGV: run.
var removeScript = redisscript.New(`
for i = 1, 4 do redis.call('SREM', KEYS[i], ARGV[1]) end
return redis.call('ZREM', KEYS[5], ARGV[1])`)

// Remove removes a run that was deleted. It may be among the Deleting.
func (x Index) Remove(ctx context.Context, run rollout.RunName) error {
	return x.change(ctx, removeScript, []string{x.ended(), x.runs(), x.active(), x.winding(), x.ends()}, run)
}

func (x Index) change(ctx context.Context, s *redis.Script, keys []string, run rollout.RunName, args ...any) error {
	if err := s.Run(ctx, x.rdb, keys, append([]any{string(run)}, args...)...).Err(); err != nil {
		return fmt.Errorf("index of the runs: %w", err)
	}
	return nil
}

// activeScript. KEYS: ended, runs, active, winding, listed. The set of those that go on is derived again when it has
// another size than it should: a process of an earlier version has opened, ended or deleted a run. Runs that such a
// process has ended are to be wound up, and the first time all that are over.
var activeScript = redisscript.New(`
local call = redis.call
if call('SCARD', KEYS[2]) - call('SCARD', KEYS[1]) ~= call('SCARD', KEYS[3]) or call('EXISTS', KEYS[5]) == 0 then
  for _, run in ipairs(call('SDIFF', KEYS[1], KEYS[2])) do call('SREM', KEYS[1], run) end
  local over = call('EXISTS', KEYS[5]) == 1 and call('SINTER', KEYS[3], KEYS[1]) or call('SMEMBERS', KEYS[1])
  for _, run in ipairs(over) do call('SADD', KEYS[4], run) end
  call('DEL', KEYS[3])
  for _, run in ipairs(call('SDIFF', KEYS[2], KEYS[1])) do call('SADD', KEYS[3], run) end
  call('SET', KEYS[5], 1)
end
return call('SMEMBERS', KEYS[3])`)

// Active is the runs that are not over, in no order. It may have one that has ended just now.
func (x Index) Active(ctx context.Context) ([]rollout.RunName, error) {
	keys := []string{x.ended(), x.runs(), x.active(), x.winding(), x.listed()}
	names, err := activeScript.Run(ctx, x.rdb, keys).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("list the runs that go on: %w", err)
	}
	return runs(names), nil
}

// All is every run, in no order.
func (x Index) All(ctx context.Context) ([]rollout.RunName, error) { return x.members(ctx, x.runs()) }

// Has reports whether there is a run.
func (x Index) Has(ctx context.Context, run rollout.RunName) (bool, error) {
	is, err := x.rdb.SIsMember(ctx, x.runs(), string(run)).Result()
	if err != nil {
		return false, fmt.Errorf("index of the runs: %w", err)
	}
	return is, nil
}

// Goes reports whether a run is listed as one that goes on.
func (x Index) Goes(ctx context.Context, run rollout.RunName) (bool, error) {
	var known, active *redis.BoolCmd
	_, err := x.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		known = p.SIsMember(ctx, x.runs(), string(run))
		active = p.SIsMember(ctx, x.active(), string(run))
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("index of the runs: %w", err)
	}
	return known.Val() && active.Val(), nil
}

// Winding is the runs that are over and not wound up, in no order.
func (x Index) Winding(ctx context.Context) ([]rollout.RunName, error) {
	return x.members(ctx, x.winding())
}

// WoundUp notes that nothing is left to be done for a run that is over.
func (x Index) WoundUp(ctx context.Context, run rollout.RunName) error {
	return x.set(ctx, "SREM", x.winding(), run)
}

// Deleting is the runs that were deleted and still hold something, in no order.
func (x Index) Deleting(ctx context.Context) ([]rollout.RunName, error) {
	return x.members(ctx, x.deleting())
}

// Delete notes that a run is deleted and still holds something.
func (x Index) Delete(ctx context.Context, run rollout.RunName) error {
	return x.set(ctx, "SADD", x.deleting(), run)
}

// Purged notes that a deleted run holds nothing any more.
func (x Index) Purged(ctx context.Context, run rollout.RunName) error {
	return x.set(ctx, "SREM", x.deleting(), run)
}

func (x Index) set(ctx context.Context, command, key string, run rollout.RunName) error {
	if err := x.rdb.Do(ctx, command, key, string(run)).Err(); err != nil {
		return fmt.Errorf("index of the runs: %w", err)
	}
	return nil
}

func (x Index) members(ctx context.Context, key string) ([]rollout.RunName, error) {
	names, err := x.rdb.SMembers(ctx, key).Result()
	if err != nil {
		return nil, fmt.Errorf("index of the runs: %w", err)
	}
	return runs(names), nil
}

func runs(names []string) []rollout.RunName {
	out := make([]rollout.RunName, len(names))
	for i, name := range names {
		out[i] = rollout.RunName(name)
	}
	return out
}

// EndedBefore is up to limit runs that have been over since before a time, those first that ended first.
func (x Index) EndedBefore(ctx context.Context, t time.Time, limit int) ([]rollout.RunName, error) {
	names, err := x.rdb.ZRangeByScore(ctx, x.ends(), &redis.ZRangeBy{
		Min: "-inf", Max: "(" + strconv.FormatInt(t.UnixMilli(), 10), Count: int64(limit),
	}).Result()
	if err != nil {
		return nil, fmt.Errorf("list the runs that are over: %w", err)
	}
	return runs(names), nil
}

// EndedBeyond is up to limit runs that ended before the newest so many that did, those first that ended first.
func (x Index) EndedBeyond(ctx context.Context, newest, limit int) ([]rollout.RunName, error) {
	all, err := x.rdb.ZCard(ctx, x.ends()).Result()
	if err != nil {
		return nil, fmt.Errorf("count the runs that are over: %w", err)
	}
	over := min(int(all)-newest, limit)
	if over <= 0 {
		return nil, nil
	}
	names, err := x.rdb.ZRange(ctx, x.ends(), 0, int64(over-1)).Result()
	if err != nil {
		return nil, fmt.Errorf("list the runs that are over: %w", err)
	}
	return runs(names), nil
}

// NewestEnded is up to limit runs that are over, those first that ended last, from the one on that follows after;
// empty: from the first. false: after is not over, or there no longer.
func (x Index) NewestEnded(ctx context.Context, after rollout.RunName, limit int) ([]rollout.RunName, bool, error) {
	from := int64(0)
	if after != "" {
		rank, err := x.rdb.ZRevRank(ctx, x.ends(), string(after)).Result()
		if errors.Is(err, redis.Nil) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("list the runs that are over: %w", err)
		}
		from = rank + 1
	}
	if limit <= 0 {
		return nil, true, nil
	}
	names, err := x.rdb.ZRevRange(ctx, x.ends(), from, from+int64(limit)-1).Result()
	if err != nil {
		return nil, false, fmt.Errorf("list the runs that are over: %w", err)
	}
	return runs(names), true, nil
}

// Undated is the runs that are over and of which the time of their end is not known: processes of earlier versions have
// noted them.
func (x Index) Undated(ctx context.Context) ([]rollout.RunName, error) {
	ended, err := x.rdb.SCard(ctx, x.ended()).Result()
	if err != nil {
		return nil, fmt.Errorf("count the runs that are over: %w", err)
	}
	dated, err := x.rdb.ZCard(ctx, x.ends()).Result()
	if err != nil || ended == dated {
		return nil, err
	}
	all, err := x.members(ctx, x.ended())
	if err != nil {
		return nil, err
	}
	names, err := x.rdb.ZRange(ctx, x.ends(), 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("list the runs that are over: %w", err)
	}
	known := map[rollout.RunName]bool{}
	for _, name := range names {
		known[rollout.RunName(name)] = true
	}
	return slices.DeleteFunc(all, func(run rollout.RunName) bool { return known[run] }), nil
}
