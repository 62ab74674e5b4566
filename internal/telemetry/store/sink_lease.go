package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/lease"
)

// ErrFenced is returned to a shipper whose lease another one has taken over.
var ErrFenced = errors.New("another shipper has taken over")

// Lease asks for the right to ship to a sink until ttl has passed, and is called again before that to keep it. One
// owner at a time has it; owner names one process in one life. fence is higher for every owner that follows another.
func (s *Store) Lease(ctx context.Context, sink, owner string, ttl time.Duration) (fence int64, mine bool, err error) {
	if _, err := s.since(ctx, sink); err != nil {
		return 0, false, err
	}
	fence, mine, err = s.lease(sink).Take(ctx, owner, ttl)
	if err != nil {
		return 0, false, err
	}
	if err := s.see(ctx, sink); err != nil {
		return 0, false, fmt.Errorf("lease sink %s: %w", sink, err)
	}
	return fence, mine, nil
}

// see notes that a shipper asks for the lease of a sink. One that nobody has shipped to for long, or ever, may not have
// got what is in scopes that are done.
func (s *Store) see(ctx context.Context, sink string) error {
	now, err := s.now(ctx)
	if err != nil {
		return err
	}
	seen, reopen := "seen "+sink, "reopen "+sink
	fields, err := s.rdb.HMGet(ctx, s.sinksKey(), seen, reopen).Result()
	if err != nil {
		return err
	}
	text, _ := fields[0].(string)
	ms, _ := strconv.ParseInt(text, 10, 64) // missing is long ago
	if fields[1] == nil && now.Sub(time.UnixMilli(ms)) < SinkForgotten {
		return s.rdb.HSet(ctx, s.sinksKey(), seen, now.UnixMilli()).Err()
	}
	if err := s.rdb.HSet(ctx, s.sinksKey(), seen, now.UnixMilli(), reopen, 1).Err(); err != nil {
		return err
	}
	if err := s.reopenAll(ctx); err != nil {
		return err
	}
	return s.rdb.HDel(ctx, s.sinksKey(), reopen).Err()
}

func (s *Store) lease(sink string) lease.Lease {
	return lease.Lease{Redis: s.rdb, Key: s.leaseKey(sink), Fence: s.fenceKey(sink)}
}

// now is the time of Redis, whose clock the ids of events are from: servers' clocks may be apart.
func (s *Store) now(ctx context.Context) (time.Time, error) {
	now, err := s.rdb.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("time of Redis: %w", err)
	}
	return now, nil
}

// Release gives a lease back, so that the next shipper need not wait for its end.
func (s *Store) Release(ctx context.Context, sink, owner string) error {
	return s.lease(sink).Release(ctx, owner)
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
		now, unknown := s.now(ctx)
		if unknown != nil {
			return 0, unknown
		}
		begin := now.Add(-backfill).UnixMilli()
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
// shipper last asked for its lease, both in ms; and what is counted of them (sink_counts.go).
func (s *Store) sinksKey() string            { return s.scope("") + "sinks" }
func (s *Store) leaseKey(sink string) string { return s.scope("") + "lease:" + sink }
func (s *Store) fenceKey(sink string) string { return s.scope("") + "fence:" + sink }
