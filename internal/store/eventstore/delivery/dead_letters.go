package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/redisscript"
)

// DeadLetter is an event that the sink refuses for what it is.
type DeadLetter struct {
	ID     string          `json:"id"` // names the dead letter, for Replay
	Event  string          `json:"event_id"`
	At     time.Time       `json:"at"`               // when it was given up
	Scope  rollout.RunName `json:"run_id,omitempty"` // empty: the fleet
	Kind   string          `json:"kind"`
	Reason string          `json:"reason"`
	Data   json.RawMessage `json:"data"` // the event
}

// MaxDeadLetters bounds the dead letters. A fact that finds no room is not given up: the sink waits.
const MaxDeadLetters = 10_000

// ErrDeadLettersFull is returned when there are as many dead letters as may be.
var ErrDeadLettersFull = errors.New("no room for more dead letters")

// deadScript adds a dead letter, once: a shipper that died before it could acknowledge the event adds it again. A
// sample that finds no room is counted. KEYS: the letters' (letterKeys), the sink. ARGV: bound, event id, whether it
// is a sample, then the letter's fields. Answers whether there was room.
var deadScript = redisscript.New(`
if redis.call('SISMEMBER', KEYS[2], ARGV[2]) == 1 then return 1 end
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[1]) then
  if ARGV[3] == '1' then redis.call('HINCRBY', KEYS[4], 'dropped', 1) end
  return tonumber(ARGV[3])
end
redis.call('INCR', KEYS[3])
redis.call('SADD', KEYS[2], ARGV[2])
redis.call('XADD', KEYS[1], '*', 'event_id', ARGV[2], 'scope', ARGV[4], 'kind', ARGV[5], 'json', ARGV[6],
  'reason', ARGV[7])
return 1`)

// letterKeys is the stream of the dead letters, the ids of the events in it, and a counter of all that there were.
func (s *Sink) letterKeys() []string {
	stream := s.keys("").Of("dead")
	return []string{stream, stream + ":ids", stream + ":all"}
}

// maxReason bounds the text that is kept of a refusal.
const maxReason = 1000

// DeadLetter keeps an event that the sink has refused, once. It is to be acknowledged afterwards. It is
// ErrDeadLettersFull when a fact finds no room.
func (s *Sink) DeadLetter(ctx context.Context, r store.Record, reason string) error {
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "..."
	}
	sample := 0
	if r.Droppable {
		sample = 1
	}
	kept, err := deadScript.Run(ctx, s.redis, append(s.letterKeys(), s.sinkKey()), MaxDeadLetters, eventID(r), sample,
		string(r.Scope), r.Kind, []byte(r.Data), reason).Int()
	switch {
	case err != nil:
		return fmt.Errorf("keep a dead letter: %w", err)
	case kept == 0:
		return ErrDeadLettersFull
	}
	return nil
}

// eventID is the id under which an event is the same wherever it is met; of what is no event, its place.
func eventID(r store.Record) string {
	var head struct {
		ID string `json:"event_id"`
	}
	if json.Unmarshal(r.Data, &head) != nil || head.ID == "" {
		return string(r.Scope) + "/record/" + r.ID
	}
	return head.ID
}

// DeadLetters lists up to limit dead letters after the one with an id, oldest first.
func (s *Sink) DeadLetters(ctx context.Context, after string, limit int) ([]DeadLetter, error) {
	from, err := store.Position(after)
	if err != nil {
		return nil, err
	}
	page, err := s.redis.XRangeN(ctx, s.letterKeys()[0], from, "+", int64(limit)).Result()
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	letters := make([]DeadLetter, len(page))
	for i, m := range page {
		text := func(name string) string { t, _ := m.Values[name].(string); return t }
		data := text("json")
		if !json.Valid([]byte(data)) {
			data = "null"
		}
		letters[i] = DeadLetter{ID: m.ID, Event: text("event_id"), At: store.Record{ID: m.ID}.WrittenAt(),
			Scope: rollout.RunName(text("scope")), Kind: text("kind"), Reason: text("reason"), Data: json.RawMessage(data)}
	}
	return letters, nil
}

// DeadLetterCount is how many dead letters are kept, and how many there have been.
func (s *Sink) DeadLetterCount(ctx context.Context) (kept, all int64, err error) {
	keys := s.letterKeys()
	var n *redis.IntCmd
	var total *redis.StringCmd
	_, err = s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		n, total = p.XLen(ctx, keys[0]), p.Get(ctx, keys[2])
		return nil
	})
	if err != nil && err != redis.Nil {
		return 0, 0, fmt.Errorf("count dead letters: %w", err)
	}
	all, _ = total.Int64() // missing is 0
	return n.Val(), all, nil
}

// Replay has dead letters shipped again, all if no id is given, and returns their number. They keep their event_id, so
// that a receiver recognises one that had arrived all the same.
func (s *Sink) Replay(ctx context.Context, ids ...string) (int, error) {
	return s.takeLetters(ctx, "replayed", ids)
}

// DropDeadLetters gives dead letters up, all if no id is given, and answers how many. They are counted as lost.
func (s *Sink) DropDeadLetters(ctx context.Context, ids ...string) (int, error) {
	return s.takeLetters(ctx, "given up", ids)
}

// takeLetters takes letters away and, when they are to be replayed, writes their events where a shipper finds them,
// in the same instant: an event is never in neither place, nor is one of both forgotten in favour of the other. KEYS:
// recent events of store.Replayed, the letters' (letterKeys), the sink. ARGV: what they are counted as, ids. Answers
// how many there were.
const takeLetters = `
local n = 0
for i = 2, #ARGV do
  for _, row in ipairs(redis.call('XRANGE', KEYS[2], ARGV[i], ARGV[i])) do
    local letter = {}
    for k = 1, #row[2], 2 do letter[row[2][k]] = row[2][k + 1] end
    redis.call('XDEL', KEYS[2], ARGV[i])
    redis.call('SREM', KEYS[3], letter['event_id'])
    if ARGV[1] == 'replayed' then write_event('f', letter['kind'], letter['json']) end
    n = n + 1
  end
end
redis.call('HINCRBY', KEYS[5], ARGV[1], n)
return n`

// takeLetters removes dead letters in portions, so that other calls to Redis do not wait long. Each given id must be a
// letter's.
func (s *Sink) takeLetters(ctx context.Context, countedAs string, ids []string) (total int, err error) {
	for _, id := range ids {
		if _, err := store.Position(id); id == "" || err != nil {
			return 0, noDeadLetter(id)
		}
	}
	for portion := range slices.Chunk(ids, atOnce) {
		if err := s.takePortion(ctx, countedAs, portion, &total); err != nil {
			return total, err
		}
	}
	if len(ids) > 0 {
		if total == 0 {
			err = noDeadLetter(ids[0])
		}
		return total, err
	}
	for {
		page, err := s.DeadLetters(ctx, "", atOnce)
		if err != nil || len(page) == 0 {
			return total, err
		}
		portion := make([]string, len(page))
		for i, l := range page {
			portion[i] = l.ID
		}
		if err := s.takePortion(ctx, countedAs, portion, &total); err != nil {
			return total, err
		}
	}
}

func (s *Sink) takePortion(ctx context.Context, countedAs string, ids []string, total *int) error {
	args := []any{countedAs}
	for _, id := range ids {
		args = append(args, id)
	}
	keys := append(append([]string{s.keys(store.Replayed).Recent()}, s.letterKeys()...), s.sinkKey())
	n, err := s.replay.Run(ctx, s.redis, keys, args...).Int()
	if err != nil {
		return fmt.Errorf("take dead letters away: %w", err)
	}
	*total += n
	return nil
}

func noDeadLetter(id string) error {
	return rollout.Refuse(rollout.Invalid, "there is no dead letter %s; list them first", id)
}
