// Package lease gives one process of a deployment the right to do something for a while. Redis ends a lease by its own
// clock, so that two servers with different clocks never both hold it.
//
// Start reading at Lease.
package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/store/redisscript"
)

// Lease is one right: the key that names its holder, and, if the holder moves something that a later holder moves too,
// the key of its fence, in the same slot of a cluster.
type Lease struct {
	Redis redis.UniversalClient
	Key   string
	Fence string // empty: none
}

// takeScript gives an owner the lease, or prolongs it. Each change of hands raises the fence. KEYS: lease, then the
// fence, if it has one. ARGV: owner, for how long in ms. Answers the fence, and 1 if the owner has the lease.
var takeScript = redisscript.New(`
local owner = redis.call('GET', KEYS[1])
local mine = not owner or owner == ARGV[1]
if mine then
  if not owner and KEYS[2] then redis.call('INCR', KEYS[2]) end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return {KEYS[2] and tonumber(redis.call('GET', KEYS[2]) or '0') or 0, mine and 1 or 0}`)

// Take asks for the lease until ttl has passed, and is called again before that to keep it. One owner at a time has
// it; owner names one process in one life. fence is higher for every owner that follows another.
func (l Lease) Take(ctx context.Context, owner string, ttl time.Duration) (fence int64, mine bool, err error) {
	keys := []string{l.Key}
	if l.Fence != "" {
		keys = append(keys, l.Fence)
	}
	got, err := takeScript.Run(ctx, l.Redis, keys, owner, max(ttl.Milliseconds(), 1)).Int64Slice()
	if err != nil {
		return 0, false, fmt.Errorf("lease %s: %w", l.Key, err)
	}
	return got[0], got[1] == 1, nil
}

// releaseScript gives a lease back. KEYS: lease. ARGV: owner.
var releaseScript = redisscript.New(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)

// Release gives the lease back, so that the next owner need not wait for its end.
func (l Lease) Release(ctx context.Context, owner string) error {
	if err := releaseScript.Run(ctx, l.Redis, []string{l.Key}, owner).Err(); err != nil {
		return fmt.Errorf("release lease %s: %w", l.Key, err)
	}
	return nil
}
