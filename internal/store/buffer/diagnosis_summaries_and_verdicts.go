package buffer

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// Older is the summary of a run's older steps, as JSON that only diagnosis reads; nil: there is none yet.
func (s *Store) Older(ctx context.Context, run rollout.RunName) ([]byte, error) {
	data, err := s.rdb.HGet(ctx, s.key(run, "older"), "steps").Bytes()
	if err == redis.Nil {
		return nil, nil
	}
	if err != nil {
		return nil, trouble("read older steps", err)
	}
	return data, nil
}

// SaveOlder keeps what is summed up of the steps before to, if until now it was of those before from; false: another
// server was first.
func (s *Store) SaveOlder(ctx context.Context, run rollout.RunName, from, to rollout.Step, data []byte) (bool, error) {
	return s.did(ctx, "keep older steps", olderScript, run, int64(from), int64(to), data)
}

// LastVerdict is the last recorded verdict of a run's diagnosis; empty: there is none.
func (s *Store) LastVerdict(ctx context.Context, run rollout.RunName) (string, error) {
	last, err := s.rdb.HGet(ctx, s.key(run, "older"), "verdict").Result()
	if err != nil && err != redis.Nil {
		return "", trouble("read the last verdict", err)
	}
	return last, nil
}

// TellVerdict records that a run's verdict has changed, once, even if several servers notice.
func (s *Store) TellVerdict(
	ctx context.Context, run rollout.RunName, was, is string, fact telemetry.Event,
) (bool, error) {
	data, err := telemetry.Encode(fact)
	if err != nil {
		return false, err
	}
	return s.did(ctx, "tell a verdict", verdictScript, run, was, is, data)
}
