package delivery

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/store/lease"
)

const (
	// SinkForgotten is when events are no longer kept for a sink without a shipper.
	SinkForgotten = 7 * 24 * time.Hour
	// backfill is how far back events are shipped to a new sink: those of the time in which the service was set up to
	// use it.
	backfill = time.Hour
)

// ErrFenced is returned to a shipper whose lease another one has taken over.
var ErrFenced = errors.New("another shipper has taken over")

// Lease asks for the right to ship to the sink until ttl has passed, and is called again before that to keep it. One
// owner at a time has it; owner names one process in one life. fence is higher for every owner that follows another.
func (s *Sink) Lease(ctx context.Context, owner string, ttl time.Duration) (fence int64, mine bool, err error) {
	if err := s.see(ctx); err != nil {
		return 0, false, fmt.Errorf("lease the sink: %w", err)
	}
	return s.lease().Take(ctx, owner, ttl)
}

// Release gives the lease back, so that the next shipper need not wait for its end.
func (s *Sink) Release(ctx context.Context, owner string) error {
	return s.lease().Release(ctx, owner)
}

func (s *Sink) lease() lease.Lease {
	return lease.Lease{Redis: s.redis, Key: s.keys("").Of("sink-lease"), Fence: s.keys("").Of("sink-fence")}
}

// fence is the fence of who has the lease now, or had it last.
func (s *Sink) fence(ctx context.Context) (int64, error) {
	fence, err := s.redis.Get(ctx, s.lease().Fence).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("fence of the sink: %w", err)
	}
	return fence, nil
}

// see records that a shipper asks for the lease. A sink without a shipper for long, or ever, may lack events in scopes
// that are done: all of them are opened again.
func (s *Sink) see(ctx context.Context) error {
	now, err := s.now(ctx)
	if err != nil {
		return err
	}
	fields, err := s.redis.HMGet(ctx, s.sinkKey(), "since", "seen", "reopen").Result()
	if err != nil {
		return err
	}
	if fields[0] == nil {
		if err := s.redis.HSetNX(ctx, s.sinkKey(), "since", now.Add(-backfill).UnixMilli()).Err(); err != nil {
			return err
		}
	}
	if fields[2] == nil && seenLately(fields[1], now) {
		return s.redis.HSet(ctx, s.sinkKey(), "seen", now.UnixMilli()).Err()
	}
	if err := s.redis.HSet(ctx, s.sinkKey(), "seen", now.UnixMilli(), "reopen", 1).Err(); err != nil {
		return err
	}
	if err := s.openAll(ctx); err != nil {
		return err
	}
	return s.redis.HDel(ctx, s.sinkKey(), "reopen").Err()
}

// isAwaited reports whether events are kept for the sink.
func (s *Sink) isAwaited(ctx context.Context) (bool, error) {
	now, err := s.now(ctx)
	if err != nil {
		return false, err
	}
	fields, err := s.redis.HMGet(ctx, s.sinkKey(), "seen").Result()
	if err != nil {
		return false, fmt.Errorf("look for the sink: %w", err)
	}
	return seenLately(fields[0], now), nil
}

func seenLately(field any, now time.Time) bool {
	text, _ := field.(string)
	ms, _ := strconv.ParseInt(text, 10, 64) // missing is long ago
	return now.Sub(time.UnixMilli(ms)) < SinkForgotten
}

// now is the time of Redis, whose clock the ids of events are from: servers' clocks may be apart.
func (s *Sink) now(ctx context.Context) (time.Time, error) {
	now, err := s.redis.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("time of Redis: %w", err)
	}
	return now, nil
}

// sinkKey is the hash of the sink's state: since, from when on it gets events, and seen, when a shipper last asked for
// its lease, both in ms; its status; and its counts (count_delivered_and_lost_events.go).
func (s *Sink) sinkKey() string { return s.keys("").Of("sink") }
