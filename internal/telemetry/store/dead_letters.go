package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/redisscript"
	"github.com/millrace/millrace/internal/rollout"
)

// DeadLetter is an event that a sink refuses for what it is.
type DeadLetter struct {
	ID     string          `json:"id"` // names the dead letter, for Replay
	Event  string          `json:"event_id"`
	At     time.Time       `json:"at"` // when it was given up
	Sink   string          `json:"sink"`
	Scope  rollout.RunName `json:"run_id,omitempty"` // empty: the fleet
	Kind   string          `json:"kind"`
	Reason string          `json:"reason"`
	Data   json.RawMessage `json:"data"` // the event
}

// MaxDeadLetters bounds the dead letters of a sink. A fact that finds no room is not given up: its sink waits.
const MaxDeadLetters = 10_000

// ErrDeadLettersFull is returned when a sink has as many dead letters as may be.
var ErrDeadLettersFull = errors.New("no room for more dead letters")

// deadScript adds a dead letter, once: a shipper that died before it could acknowledge the event adds it again. A
// sample that finds no room is counted. KEYS: the stream, a counter of all that there were, the event ids in the
// stream, all sinks. ARGV: bound, event id, whether it is a sample, the sink, then the letter's fields. Answers whether
// there was room.
var deadScript = redisscript.New(`
if redis.call('SISMEMBER', KEYS[3], ARGV[2]) == 1 then return 1 end
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[1]) then
  if ARGV[3] == '1' then redis.call('HINCRBY', KEYS[4], 'dropped ' .. ARGV[4], 1) end
  return tonumber(ARGV[3])
end
redis.call('INCR', KEYS[2])
redis.call('SADD', KEYS[3], ARGV[2])
redis.call('XADD', KEYS[1], '*', 'scope', ARGV[5], 'kind', ARGV[6], 'json', ARGV[7], 'reason', ARGV[8],
  'event_id', ARGV[2])
return 1`)

// maxReason bounds the text that is kept of a refusal.
const maxReason = 1000

// DeadLetter keeps an event that a sink has refused, once. It is to be acknowledged afterwards. It is
// ErrDeadLettersFull when a fact finds no room.
func (s *Store) DeadLetter(ctx context.Context, sink string, r Record, reason string) error {
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "..."
	}
	sample := 0
	if r.Droppable {
		sample = 1
	}
	keys := []string{s.deadKey(sink), s.deadKey(sink) + ":all", s.deadKey(sink) + ":ids", s.sinksKey()}
	kept, err := deadScript.Run(ctx, s.rdb, keys, MaxDeadLetters, eventID(r), sample, sink, string(r.Scope), r.Kind,
		[]byte(r.Data), reason).Int()
	switch {
	case err != nil:
		return fmt.Errorf("keep a dead letter of sink %s: %w", sink, err)
	case kept == 0:
		return ErrDeadLettersFull
	}
	return nil
}

// eventID is the id under which an event is the same wherever it is met; of what is no event, its place.
func eventID(r Record) string {
	var head struct {
		ID string `json:"event_id"`
	}
	if json.Unmarshal(r.Data, &head) != nil || head.ID == "" {
		return string(r.Scope) + "/record/" + r.ID
	}
	return head.ID
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
	return DeadLetter{ID: m.ID, Event: text("event_id"), At: time.UnixMilli(int64(ms)).UTC(), Sink: sink,
		Scope: rollout.RunName(text("scope")),
		Kind:  text("kind"), Reason: text("reason"), Data: json.RawMessage(data)}
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
	return s.eachPortion(ctx, sink, ids, s.replay)
}

// eachPortion does something with dead letters, all of the sink's if no id is given, some at a time, so that nobody
// else's call of Redis waits long. Of ids that are given each must be a letter's.
func (s *Store) eachPortion(ctx context.Context, sink string, ids []string,
	do func(context.Context, string, []string) (int, error)) (total int, err error) {
	for _, id := range ids {
		if !idPattern.MatchString(id) {
			return 0, noDeadLetter(sink, id)
		}
	}
	if len(ids) > 0 {
		for portion := range slices.Chunk(ids, maxBatch) {
			n, err := do(ctx, sink, portion)
			if total += n; err != nil {
				return total, err
			}
		}
		if total == 0 {
			err = noDeadLetter(sink, ids[0])
		}
		return total, err
	}
	for {
		page, err := s.DeadLetters(ctx, sink, "", maxBatch)
		if err != nil || len(page) == 0 {
			return total, err
		}
		portion := make([]string, len(page))
		for i, l := range page {
			portion[i] = l.ID
		}
		n, err := do(ctx, sink, portion)
		if total += n; err != nil {
			return total, err
		}
	}
}

// replayBody takes letters away and writes their events where a shipper finds them, in the same instant: an event is
// never in neither place, nor is one of both forgotten in favour of the other. KEYS: recent events of Replayed, the
// letters, the event ids in them, all sinks. ARGV: the sink, ids. Answers how many there were.
const replayBody = `
local n = 0
for i = 2, #ARGV do
  for _, row in ipairs(redis.call('XRANGE', KEYS[2], ARGV[i], ARGV[i])) do
    local letter = {}
    for k = 1, #row[2], 2 do letter[row[2][k]] = row[2][k + 1] end
    redis.call('XDEL', KEYS[2], ARGV[i])
    if letter['event_id'] then redis.call('SREM', KEYS[3], letter['event_id']) end
    write_event('f', letter['kind'], letter['json'])
    n = n + 1
  end
end
redis.call('HINCRBY', KEYS[4], 'replayed ' .. ARGV[1], n)
return n`

func (s *Store) replay(ctx context.Context, sink string, ids []string) (int, error) {
	args := []any{sink}
	for _, id := range ids {
		args = append(args, id)
	}
	keys := []string{s.recentKey(Replayed), s.deadKey(sink), s.deadKey(sink) + ":ids", s.sinksKey()}
	n, err := s.replayScript.Run(ctx, s.rdb, keys, args...).Int()
	if err != nil {
		return 0, fmt.Errorf("replay dead letters of sink %s: %w", sink, err)
	}
	return n, nil
}

// DropDeadLetters gives dead letters up, all of the sink's if no id is given, and answers how many. They are counted as
// lost.
func (s *Store) DropDeadLetters(ctx context.Context, sink string, ids ...string) (int, error) {
	return s.eachPortion(ctx, sink, ids, s.drop)
}

func noDeadLetter(sink, id string) error {
	return rollout.Refuse(rollout.Invalid, "sink %s has no dead letter %s; list them first", sink, id)
}

// dropScript takes dead letters away. KEYS: the letters, the event ids in them, all sinks. ARGV: the sink, ids. Answers
// how many there were.
var dropScript = redisscript.New(`
local n = 0
for i = 2, #ARGV do
  for _, row in ipairs(redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i])) do
    for k = 1, #row[2], 2 do
      if row[2][k] == 'event_id' then redis.call('SREM', KEYS[2], row[2][k + 1]) end
    end
    n = n + redis.call('XDEL', KEYS[1], ARGV[i])
  end
end
redis.call('HINCRBY', KEYS[3], 'given up ' .. ARGV[1], n)
return n`)

func (s *Store) drop(ctx context.Context, sink string, ids []string) (int, error) {
	args := []any{sink}
	for _, id := range ids {
		args = append(args, id)
	}
	keys := []string{s.deadKey(sink), s.deadKey(sink) + ":ids", s.sinksKey()}
	n, err := dropScript.Run(ctx, s.rdb, keys, args...).Int()
	if err != nil {
		return 0, fmt.Errorf("drop dead letters of sink %s: %w", sink, err)
	}
	return n, nil
}

func (s *Store) deadKey(sink string) string { return s.scope("") + "dead:" + sink }
