package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// DeadLetter is an event that a sink refuses for what it is.
type DeadLetter struct {
	ID     string          `json:"id"` // names the dead letter, for Replay
	At     time.Time       `json:"at"` // when it was given up
	Sink   string          `json:"sink"`
	Scope  rollout.RunName `json:"run_id,omitempty"` // empty: the fleet
	Kind   string          `json:"kind"`
	Reason string          `json:"reason"`
	Data   json.RawMessage `json:"data"` // the event
}

// maxDeadLetters bounds the dead letters of a sink. Beyond it the oldest go, and are counted.
const maxDeadLetters = 100_000

// deadScript adds a dead letter. KEYS: the stream, a counter of all that there were. ARGV: bound, then its fields.
var deadScript = redis.NewScript(`
redis.call('INCR', KEYS[2])
return redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[1], '*', 'scope', ARGV[2], 'kind', ARGV[3], 'json', ARGV[4],
  'reason', ARGV[5])`)

// maxReason bounds the text that is kept of a refusal.
const maxReason = 1000

// DeadLetter keeps an event that a sink has refused. It is to be acknowledged afterwards.
func (s *Store) DeadLetter(ctx context.Context, sink string, r Record, reason string) error {
	if len(reason) > maxReason {
		reason = reason[:maxReason] + "..."
	}
	err := deadScript.Run(ctx, s.rdb, []string{s.deadKey(sink), s.deadKey(sink) + ":all"}, maxDeadLetters,
		string(r.Scope), r.Kind, []byte(r.Data), reason).Err()
	if err != nil {
		return fmt.Errorf("keep a dead letter of sink %s: %w", sink, err)
	}
	return nil
}

// DeadLetters lists up to limit dead letters of a sink after the one with an id, oldest first.
func (s *Store) DeadLetters(ctx context.Context, sink, after string, limit int) ([]DeadLetter, error) {
	from, err := position(after)
	if err != nil {
		return nil, err
	}
	page, err := s.rdb.XRangeN(ctx, s.deadKey(sink), from, "+", int64(limit)).Result()
	if err != nil {
		return nil, fmt.Errorf("read dead letters of sink %s: %w", sink, err)
	}
	letters := make([]DeadLetter, len(page))
	for i, m := range page {
		letters[i] = deadLetter(sink, m)
	}
	return letters, nil
}

func deadLetter(sink string, m redis.XMessage) DeadLetter {
	text := func(name string) string { t, _ := m.Values[name].(string); return t }
	ms, _ := split(m.ID)
	data := text("json")
	if !json.Valid([]byte(data)) {
		data = "null"
	}
	return DeadLetter{ID: m.ID, At: time.UnixMilli(int64(ms)).UTC(), Sink: sink, Scope: rollout.RunName(text("scope")),
		Kind: text("kind"), Reason: text("reason"), Data: json.RawMessage(data)}
}

// DeadLetterCount is how many dead letters of a sink are kept, and how many there have been.
func (s *Store) DeadLetterCount(ctx context.Context, sink string) (kept, all int64, err error) {
	var n *redis.IntCmd
	var total *redis.StringCmd
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		n, total = p.XLen(ctx, s.deadKey(sink)), p.Get(ctx, s.deadKey(sink)+":all")
		return nil
	})
	if err != nil && err != redis.Nil {
		return 0, 0, fmt.Errorf("count dead letters of sink %s: %w", sink, err)
	}
	all, _ = total.Int64() // missing is 0
	return n.Val(), all, nil
}

// Replay has dead letters shipped again, all of the sink's if no id is given, and answers how many. They keep their
// event_id, so that one which had arrived all the same is told apart.
func (s *Store) Replay(ctx context.Context, sink string, ids ...string) (int, error) {
	if len(ids) > 0 {
		return s.replay(ctx, sink, ids)
	}
	total := 0
	for {
		page, err := s.DeadLetters(ctx, sink, "", maxBatch)
		if err != nil || len(page) == 0 {
			return total, err
		}
		for _, l := range page {
			ids = append(ids, l.ID)
		}
		n, err := s.replay(ctx, sink, ids)
		if total += n; err != nil {
			return total, err
		}
		ids = ids[:0]
	}
}

// replay writes them where a shipper finds them, and only then takes them away.
func (s *Store) replay(ctx context.Context, sink string, ids []string) (int, error) {
	var entries []entry
	for _, id := range ids {
		found, err := s.rdb.XRange(ctx, s.deadKey(sink), id, id).Result()
		if err != nil {
			return 0, fmt.Errorf("read dead letter %s of sink %s: %w", id, sink, err)
		}
		if len(found) == 0 {
			return 0, rollout.Refuse(rollout.Invalid, "sink %s has no dead letter %s; list them first", sink, id)
		}
		l := deadLetter(sink, found[0])
		entries = append(entries, entry{run: Replayed, flag: again, kind: l.Kind, json: l.Data})
	}
	if err := s.append(ctx, Replayed, entries); err != nil {
		return 0, fmt.Errorf("replay dead letters of sink %s: %w", sink, err)
	}
	if err := s.rdb.XDel(ctx, s.deadKey(sink), ids...).Err(); err != nil {
		return 0, fmt.Errorf("replay dead letters of sink %s: %w", sink, err)
	}
	return len(entries), nil
}

func (s *Store) deadKey(sink string) string { return s.scope("") + "dead:" + sink }
