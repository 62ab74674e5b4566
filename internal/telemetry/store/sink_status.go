package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/redisscript"

	"github.com/millrace/millrace/internal/telemetry"
)

// statusScript keeps what a server says of its sink, unless one with a higher fence has spoken. KEYS: the sink. ARGV:
// fence, status.
var statusScript = redisscript.New(`
if tonumber(redis.call('HGET', KEYS[1], 'fence') or '0') > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'status', ARGV[2])
return 1`)

// SaveSinkStatus keeps what the server that delivers to a sink says of it. It is ErrFenced when another one does by
// now.
func (s *Store) SaveSinkStatus(ctx context.Context, fence int64, status telemetry.SinkStatus) error {
	text, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("save the status of sink %s: %w", status.Sink, err)
	}
	saved, err := statusScript.Run(ctx, s.rdb, []string{s.sinkStatusKey(status.Sink)}, fence, text).Int()
	switch {
	case err != nil:
		return fmt.Errorf("save the status of sink %s: %w", status.Sink, err)
	case saved == 0:
		return ErrFenced
	}
	return nil
}

// SinkStatus is what the server that delivers to a sink said of it last, with what is counted with each event: this is
// exact, whoever was killed meanwhile. Of a sink that was never used it has the name alone.
func (s *Store) SinkStatus(ctx context.Context, sink string) (telemetry.SinkStatus, error) {
	status := telemetry.SinkStatus{Sink: sink}
	if used, err := s.rdb.HExists(ctx, s.sinksKey(), "since "+sink).Result(); err != nil || !used {
		return status, err
	}
	text, err := s.rdb.HGet(ctx, s.sinkStatusKey(sink), "status").Bytes()
	if err == nil {
		err = json.Unmarshal(text, &status)
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return status, fmt.Errorf("read the status of sink %s: %w", sink, err)
	}
	if status.DeadLetters, status.DeadLettered, err = s.DeadLetterCount(ctx, sink); err != nil {
		return status, err
	}
	total, other, err := s.sinkSums(ctx, sink)
	if err != nil {
		return status, err
	}
	status.Written = total.written - other["replayed"]
	status.Backlog = total.waiting
	refused := other["dropped"] // samples, when there was no room
	status.LostFacts, status.LostSamples = total.lostFacts, total.lostSamples+refused
	status.LostLetters = other["given up"]
	status.Delivered = total.passed - status.DeadLettered - refused
	if kept := -status.Delivered; kept > 0 { // letters whose events the cursor has not passed yet
		status.Delivered, status.Backlog = 0, max(0, status.Backlog-kept)
	}
	return status, nil
}

func (s *Store) sinkStatusKey(sink string) string { return s.scope("") + "sink:" + sink }
