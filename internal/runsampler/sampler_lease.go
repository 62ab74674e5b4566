package runsampler

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// lease is the right to sample. One server of a deployment has it; it only saves work, and says who speaks for the
// deployment: that nothing is counted twice while two believe to have it, the buffer sees to.
type lease struct {
	rdb   redis.UniversalClient
	key   string
	owner string

	until atomic.Int64 // in ns: when it ends, unless it is taken again
}

// leaseFor is how long a server that is not heard of any more keeps the lease.
const leaseFor = 3 * Interval

// takeScript takes the lease or prolongs it, unless another server has it. One from the future, of a clock that was
// set back, does not count. KEYS: lease. ARGV: owner, now, for how long, in ms.
var takeScript = redis.NewScript(`
local now, owner, at = tonumber(ARGV[2]), string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) (%d+)$')
at = tonumber(at or '0')
if owner and owner ~= ARGV[1] and now - at < tonumber(ARGV[3]) and at - now < 60000 then return 0 end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2])
return 1`)

// take reports whether this server has the lease from now on.
func (l *lease) take(ctx context.Context, now time.Time) (bool, error) {
	mine, err := takeScript.Run(ctx, l.rdb, []string{l.key}, l.owner, now.UnixMilli(), leaseFor.Milliseconds()).Int64()
	if err != nil {
		return false, fmt.Errorf("take turns with other servers: %w", err)
	}
	if mine == 0 {
		l.until.Store(0)
		return false, nil
	}
	l.until.Store(now.Add(leaseFor).UnixNano())
	return true, nil
}

func (l *lease) held(now time.Time) bool { return now.UnixNano() < l.until.Load() }

// releaseScript gives the lease back. KEYS: lease. ARGV: owner.
var releaseScript = redis.NewScript(`
if string.match(redis.call('GET', KEYS[1]) or '', '^%S+') == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)

// release lets the next server sample at once. If Redis does not answer, it waits until the lease ends.
func (l *lease) release(ctx context.Context) {
	l.until.Store(0)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = releaseScript.Run(ctx, l.rdb, []string{l.key}, l.owner).Err()
}
