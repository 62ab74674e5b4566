package runsampler

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/store/lease"
)

// turn is the right to sample, held by one server of a deployment. It saves work, and decides which server speaks for
// the deployment. If two servers believe to hold it, the buffer still counts nothing twice.
type turn struct {
	lease lease.Lease
	owner string

	until atomic.Pointer[time.Time] // when it ends, unless it is taken again; nil: it is not ours
}

// leaseFor is how long a server that is not heard of any more keeps the lease.
const leaseFor = 3 * Interval

// take reports whether this server has the lease from now on. Redis ends it. Here it ends no later, by the monotonic
// clock.
func (l *turn) take(ctx context.Context) (bool, error) {
	until := time.Now().Add(leaseFor)
	_, mine, err := l.lease.Take(ctx, l.owner, leaseFor)
	if err != nil {
		return false, fmt.Errorf("take turns with other servers: %w", err)
	}
	if !mine {
		l.until.Store(nil)
		return false, nil
	}
	l.until.Store(&until)
	return true, nil
}

func (l *turn) held() bool {
	until := l.until.Load()
	return until != nil && time.Now().Before(*until)
}

// release lets the next server sample at once. If Redis does not answer, it waits until the lease ends.
func (l *turn) release(ctx context.Context) {
	l.until.Store(nil)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = l.lease.Release(ctx, l.owner)
}
