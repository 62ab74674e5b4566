// Package runindex indexes the runs that a deployment has in Redis: all runs, active ones, ended ones by the time of
// their end, ended ones that are not wound up yet, and deleted ones that still hold something. The cost of frequent
// queries does not grow with the number of ended runs. It knows nothing else about runs.
//
// The keys but one share a hash slot, so that a script keeps them in agreement.
//
// Start reading at Index.
package runindex

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/redisscript"
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
//	active    set of those that go on
//	winding   set of those that are over and not wound up
//	ends      sorted set of those that are over, by the time of their end in ms
//	deleting  set of runs that were deleted and still hold something
func (x Index) runs() string     { return x.prefix + ":runs" }
func (x Index) active() string   { return "{" + x.runs() + "}:active" }
func (x Index) winding() string  { return "{" + x.runs() + "}:winding" }
func (x Index) ends() string     { return "{" + x.runs() + "}:ends" }
func (x Index) deleting() string { return x.prefix + ":deleting" }

// The scripts change one run. KEYS: runs, active, winding, ends. ARGV: run, and for end the time in ms. They ignore a
// run that was deleted before it ended or was revived.
var (
	openScript = redisscript.New(`
redis.call('SADD', KEYS[1], ARGV[1])
if not redis.call('ZSCORE', KEYS[4], ARGV[1]) then redis.call('SADD', KEYS[2], ARGV[1]) end
return 1`)
	endScript = redisscript.New(`
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('SREM', KEYS[2], ARGV[1])
if redis.call('ZADD', KEYS[4], ARGV[2], ARGV[1]) == 1 then redis.call('SADD', KEYS[3], ARGV[1]) end
return 1`)
	reviveScript = redisscript.New(`
redis.call('SREM', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[4], ARGV[1])
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then redis.call('SADD', KEYS[2], ARGV[1]) end
return 1`)
	removeScript = redisscript.New(`
for i = 1, 3 do redis.call('SREM', KEYS[i], ARGV[1]) end
return redis.call('ZREM', KEYS[4], ARGV[1])`)
)

// Open adds a run.
func (x Index) Open(ctx context.Context, run rollout.RunName) error {
	return x.change(ctx, openScript, run)
}

// End notes that a run is over since a time. It is to be wound up.
func (x Index) End(ctx context.Context, run rollout.RunName, at time.Time) error {
	return x.change(ctx, endScript, run, at.UnixMilli())
}

// Revive notes that a run goes on that was taken for over.
func (x Index) Revive(ctx context.Context, run rollout.RunName) error {
	return x.change(ctx, reviveScript, run)
}

// Remove removes a run that was deleted. It may be among the Deleting.
func (x Index) Remove(ctx context.Context, run rollout.RunName) error {
	return x.change(ctx, removeScript, run)
}

func (x Index) change(ctx context.Context, s *redis.Script, run rollout.RunName, args ...any) error {
	keys := []string{x.runs(), x.active(), x.winding(), x.ends()}
	if err := s.Run(ctx, x.rdb, keys, append([]any{string(run)}, args...)...).Err(); err != nil {
		return fmt.Errorf("index of the runs: %w", err)
	}
	return nil
}

// Active is the runs that are not over, in no order.
func (x Index) Active(ctx context.Context) ([]rollout.RunName, error) {
	return x.members(ctx, x.active())
}

// Some is up to limit runs, chosen by chance.
func (x Index) Some(ctx context.Context, limit int) ([]rollout.RunName, error) {
	names, err := x.rdb.SRandMemberN(ctx, x.runs(), int64(limit)).Result()
	if err != nil {
		return nil, fmt.Errorf("index of the runs: %w", err)
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
