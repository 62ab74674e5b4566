package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrFenced is returned to a shipper whose lease another one has taken over.
var ErrFenced = errors.New("another shipper has taken over")

// leaseScript gives an owner the lease of a sink, or prolongs it. Each time the lease changes hands, the fence goes up.
// KEYS: lease, fence. ARGV: owner, for how long in ms. Answers the fence, and 1 to who has the lease.
var leaseScript = redis.NewScript(`
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return {tonumber(redis.call('GET', KEYS[2]) or '0'), 0} end
if not owner then redis.call('INCR', KEYS[2]) end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {tonumber(redis.call('GET', KEYS[2]) or '0'), 1}`)

// Lease asks for the right to ship to a sink until ttl has passed, and is called again before that to keep it. One
// owner at a time has it; owner names one process in one life. fence is higher for every owner that follows another.
func (s *Store) Lease(ctx context.Context, sink, owner string, ttl time.Duration) (fence int64, mine bool, err error) {
	if _, err := s.since(ctx, sink); err != nil {
		return 0, false, err
	}
	got, err := leaseScript.Run(ctx, s.rdb, []string{s.leaseKey(sink), s.fenceKey(sink)}, owner,
		max(ttl.Milliseconds(), 1)).Int64Slice()
	if err != nil {
		return 0, false, fmt.Errorf("lease sink %s: %w", sink, err)
	}
	if err := s.rdb.HSet(ctx, s.sinksKey(), "seen "+sink, time.Now().UnixMilli()).Err(); err != nil {
		return 0, false, fmt.Errorf("lease sink %s: %w", sink, err)
	}
	return got[0], got[1] == 1, nil
}

// releaseScript gives a lease back. KEYS: lease. ARGV: owner.
var releaseScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)

// Release gives a lease back, so that the next shipper need not wait for its end.
func (s *Store) Release(ctx context.Context, sink, owner string) error {
	if err := releaseScript.Run(ctx, s.rdb, []string{s.leaseKey(sink)}, owner).Err(); err != nil {
		return fmt.Errorf("release sink %s: %w", sink, err)
	}
	return nil
}

// Fence is the fence of who has the lease of a sink now, or had it last.
func (s *Store) Fence(ctx context.Context, sink string) (int64, error) {
	fence, err := s.rdb.Get(ctx, s.fenceKey(sink)).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("fence of sink %s: %w", sink, err)
	}
	return fence, nil
}

// backfill is how far back a sink reaches that was never shipped to before: what happened while the service was made
// to ship to it.
const backfill = time.Hour

// since is from when on a sink gets events, in ms.
func (s *Store) since(ctx context.Context, sink string) (int64, error) {
	at, err := s.rdb.HGet(ctx, s.sinksKey(), "since "+sink).Result()
	if errors.Is(err, redis.Nil) {
		begin := time.Now().Add(-backfill).UnixMilli()
		if err := s.rdb.HSetNX(ctx, s.sinksKey(), "since "+sink, begin).Err(); err != nil {
			return 0, fmt.Errorf("register sink %s: %w", sink, err)
		}
		at, err = s.rdb.HGet(ctx, s.sinksKey(), "since "+sink).Result()
	}
	if err != nil {
		return 0, fmt.Errorf("sink %s: %w", sink, err)
	}
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("sink %s: since %q: %w", sink, at, err)
	}
	return ms, nil
}

// sinksKey is a hash of the sinks that there are: 'since SINK', from when on one gets events, and 'seen SINK', when a
// shipper last asked for its lease, both in ms.
func (s *Store) sinksKey() string            { return s.scope("") + "sinks" }
func (s *Store) leaseKey(sink string) string { return s.scope("") + "lease:" + sink }
func (s *Store) fenceKey(sink string) string { return s.scope("") + "fence:" + sink }
