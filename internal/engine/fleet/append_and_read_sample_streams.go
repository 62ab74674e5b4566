package fleet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// append adds a sample of a time to a stream. The time is its id and also a field, because it cannot always be the id:
// if the keeper's clock is behind the newest sample's, because it was set back or the keeper runs on another machine
// now, Redis makes the id.
func (s *Sampler) append(ctx context.Context, stream string, most int64, at time.Time, data []byte) error {
	ms := strconv.FormatInt(at.UnixMilli(), 10)
	add := redis.XAddArgs{Stream: stream, MaxLen: most, Approx: true, ID: ms + "-*", Values: []any{"s", data, "t", ms}}
	err := s.rdb.XAdd(ctx, &add).Err()
	if err != nil && strings.Contains(err.Error(), "equal or smaller") {
		add.ID = "*"
		err = s.rdb.XAdd(ctx, &add).Err()
	}
	return err
}

// between lists the samples of a time. Those with ids made by Redis come after all that were there.
func (s *Sampler) between(ctx context.Context, stream string, from, to time.Time) ([]redis.XMessage, error) {
	entries, err := s.rdb.XRange(ctx, stream, strconv.FormatInt(from.UnixMilli(), 10), "+").Result()
	if err != nil {
		return nil, err
	}
	within := entries[:0]
	for _, e := range entries {
		at, err := sampledAt(e)
		if err != nil {
			return nil, fmt.Errorf("sample %s: %w", e.ID, err)
		}
		if !at.Before(from) && !at.After(to) {
			within = append(within, e)
		}
	}
	return within, nil
}

// sampledAt is the time of a sample.
func sampledAt(e redis.XMessage) (time.Time, error) {
	text, _, _ := strings.Cut(e.ID, "-")
	if own, ok := e.Values["t"].(string); ok {
		text = own
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, errors.New("has no time")
	}
	return time.UnixMilli(ms), nil
}
