package delivery

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/millrace/millrace/internal/rollout/telemetry"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/redisscript"
)

// statusScript keeps what a server says of the sink, unless one with a higher fence has spoken. KEYS: the sink. ARGV:
// fence, status.
var statusScript = redisscript.New(`
if tonumber(redis.call('HGET', KEYS[1], 'status fence') or '0') > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'status fence', ARGV[1], 'status', ARGV[2])
return 1`)

// SaveSinkStatus keeps what the server that delivers to the sink says of it. It is ErrFenced when another one does by
// now.
func (s *Sink) SaveSinkStatus(ctx context.Context, fence int64, status telemetry.SinkStatus) error {
	text, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("save the status of the sink: %w", err)
	}
	saved, err := statusScript.Run(ctx, s.redis, []string{s.sinkKey()}, fence, text).Int()
	switch {
	case err != nil:
		return fmt.Errorf("save the status of the sink: %w", err)
	case saved == 0:
		return ErrFenced
	}
	return nil
}

// SinkStatus is the last status that the delivering server saved, with counts updated with each event, which are exact
// even if servers were killed. It is empty for a sink that was never used.
func (s *Sink) SinkStatus(ctx context.Context) (telemetry.SinkStatus, error) {
	var status telemetry.SinkStatus
	total, fields, err := s.sums(ctx)
	if err != nil || fields["since"] == "" {
		return status, err
	}
	if text := fields["status"]; text != "" {
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			return status, fmt.Errorf("read the status of the sink: %w", err)
		}
	}
	if status.DeadLetters, status.DeadLettered, err = s.DeadLetterCount(ctx); err != nil {
		return status, err
	}
	refused := store.Number(fields["dropped"]) // samples, when there was no room
	status.Written = total.passed + total.lostFacts + total.lostSamples + total.waiting - store.Number(fields["replayed"])
	status.Backlog = total.waiting
	status.LostFacts, status.LostSamples = total.lostFacts, total.lostSamples+refused
	status.LostLetters = store.Number(fields["given up"])
	status.Delivered = total.passed - status.DeadLettered - refused
	if kept := -status.Delivered; kept > 0 { // letters whose events the cursor has not passed yet
		status.Delivered, status.Backlog = 0, max(0, status.Backlog-kept)
	}
	return status, nil
}
