package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/redisscript"
	"github.com/millrace/millrace/internal/rollout"
)

// A sink has a cursor in every scope: a run, a deleted run of which something was not shipped yet, or the fleet.
// All events up to the cursor are dealt with. Delivery is at least once: what was sent and not acknowledged is listed
// again.

// Replayed is the scope of dead letters that are to be shipped again. No run can have its name. It lies beside the
// fleet's, so that one script takes a letter from there to here. Those of earlier versions lie in "/replayed", which is
// a scope as any other.
const Replayed rollout.RunName = "/replay"

// Lag is how far a sink is behind in one scope.
type Lag struct {
	Facts, Samples int64     // written and not acknowledged
	Oldest         time.Time // when the first of them was written; zero when there is none
	// LostFacts and LostSamples is what was let go before it was shipped, since the sink was known first: the sink was
	// behind by more than the streams' bounds.
	LostFacts, LostSamples int64
}

// Scopes lists where there are events after the sink's cursor.
func (s *Store) Scopes(ctx context.Context, sink string) ([]rollout.RunName, error) {
	since, err := s.since(ctx, sink)
	if err != nil {
		return nil, err
	}
	all, err := s.openScopes(ctx)
	if err != nil {
		return nil, err
	}
	last := make([]*redis.StringCmd, len(all))
	cursor := make([]*redis.StringCmd, len(all))
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, scope := range all {
			last[i] = p.HGet(ctx, s.writtenKey(scope), "last")
			cursor[i] = p.HGet(ctx, s.cursorKey(scope, sink), "id")
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("look for events of sink %s: %w", sink, err)
	}
	var behind []rollout.RunName
	for i, scope := range all {
		from := cursor[i].Val()
		if from == "" {
			from = beginning(since)
		}
		if last[i].Val() != "" && earlier(from, last[i].Val()) {
			behind = append(behind, scope)
		}
	}
	s.forgetWindows(sink, behind)
	return behind, nil
}

// beginning is the id before those of a time.
func beginning(ms int64) string { return strconv.FormatInt(max(ms, 0), 10) + "-0" }

// cursor is how far a sink has come in a scope.
type cursor struct {
	id                     string
	facts, samples         int64 // numbers of the latest of each up to the cursor
	lostFacts, lostSamples int64
}

// Unshipped lists up to limit events after the sink's cursor, oldest first: facts, and samples as far as they are kept.
// What is acknowledged already is left out.
func (s *Store) Unshipped(ctx context.Context, sink string, scope rollout.RunName, limit int) ([]Record, Lag, error) {
	from, written, err := s.cursorAt(ctx, sink, scope)
	if err != nil {
		return nil, Lag{}, err
	}
	page, err := s.Recent(ctx, scope, from.id, limit)
	if err != nil {
		return nil, Lag{}, err
	}
	done := s.keepWindow(sink, scope, from, page)
	lag := from.lag(written, page, len(page) < limit)
	var unshipped []Record
	for _, r := range page {
		if !done[r.ID] {
			unshipped = append(unshipped, r)
			continue
		}
		if r.Droppable {
			lag.Samples--
		} else {
			lag.Facts--
		}
	}
	if len(unshipped) > 0 {
		ms, _ := split(unshipped[0].ID)
		lag.Oldest = time.UnixMilli(int64(ms)).UTC()
	}
	return unshipped, lag, nil
}

// Lag is how far a sink is behind in a scope. Unlike Unshipped it lists nothing.
func (s *Store) Lag(ctx context.Context, sink string, scope rollout.RunName) (Lag, error) {
	at, written, err := s.cursorAt(ctx, sink, scope)
	if err != nil {
		return Lag{}, err
	}
	lag := Lag{Facts: max(0, written.facts-at.facts), Samples: max(0, written.samples-at.samples),
		LostFacts: at.lostFacts, LostSamples: at.lostSamples}
	next, err := s.Recent(ctx, scope, at.id, 1)
	if err == nil && len(next) > 0 {
		ms, _ := split(next[0].ID)
		lag.Oldest = time.UnixMilli(int64(ms)).UTC()
	}
	return lag, err
}

// cursorAt is the sink's cursor in a scope, and how many events there are.
func (s *Store) cursorAt(ctx context.Context, sink string,
	scope rollout.RunName) (at cursor, written cursor, err error) {
	since, err := s.since(ctx, sink)
	if err != nil {
		return at, written, err
	}
	var kept, counts *redis.MapStringStringCmd
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		kept = p.HGetAll(ctx, s.cursorKey(scope, sink))
		counts = p.HGetAll(ctx, s.writtenKey(scope))
		return nil
	})
	if err != nil {
		return at, written, fmt.Errorf("cursor of sink %s: %w", sink, err)
	}
	number := func(fields map[string]string, name string) int64 {
		n, _ := strconv.ParseInt(fields[name], 10, 64) // missing is 0, and all else a script wrote
		return n
	}
	f := counts.Val()
	written = cursor{id: f["last"], facts: number(f, "f"), samples: number(f, "s")}
	if f = kept.Val(); f["id"] != "" {
		return cursor{id: f["id"], facts: number(f, "f"), samples: number(f, "s"),
			lostFacts: number(f, "lost f"), lostSamples: number(f, "lost s")}, written, nil
	}
	at.id = beginning(since)
	if first := counts.Val()["first"]; first != "" && earlier(first, at.id) {
		at.facts, at.samples, err = s.numbersBefore(ctx, scope, at.id)
	}
	return at, written, err
}

// numbersBefore is how many facts and samples were written up to an id: those before the next that is kept.
func (s *Store) numbersBefore(ctx context.Context, scope rollout.RunName, id string) (facts, samples int64, err error) {
	var found [2]bool
	for after := id; !found[0] || !found[1]; {
		page, err := s.Recent(ctx, scope, after, followPage)
		if err != nil {
			return 0, 0, err
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			after = r.ID
			switch {
			case r.number == 0: // of a version that did not count
			case r.Droppable && !found[1]:
				samples, found[1] = r.number-1, true
			case !r.Droppable && !found[0]:
				facts, found[0] = r.number-1, true
			}
		}
	}
	return facts, samples, err
}

// ackScript moves a cursor, and never back. KEYS: the sink's cursor. ARGV: fence, id, its ms and sequence, numbers of
// the latest fact and sample, facts and samples lost; the numbers from which a cursor begins that is not there yet.
// Where one began, and what was lost by then, it keeps: what it has passed since is counted by the difference. Earlier
// versions kept that elsewhere (see sink_counts.go). Answers 0 to who is fenced off.
var ackScript = redisscript.New(`
local fence = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < fence then return 0 end
local ms, seq = string.match(redis.call('HGET', KEYS[1], 'id') or '0-0', '^(%d+)-(%d+)$')
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
if tonumber(ms) > tonumber(ARGV[3]) or tonumber(ms) == tonumber(ARGV[3]) and tonumber(seq) >= tonumber(ARGV[4]) then
  return 1
end
if redis.call('HEXISTS', KEYS[1], 'from f') == 0 then
  local at = redis.call('HMGET', KEYS[1], 'f', 's', 'lost f', 'lost s')
  redis.call('HSET', KEYS[1], 'from f', at[1] or ARGV[9], 'from s', at[2] or ARGV[10],
    'from lost f', at[3] or '0', 'from lost s', at[4] or '0')
end
redis.call('HSET', KEYS[1], 'id', ARGV[2], 'f', ARGV[5], 's', ARGV[6], 'lost f', ARGV[7], 'lost s', ARGV[8])
return 1`)

// Acknowledge says that events which Unshipped has listed are dealt with: the sink has them, or has refused them and
// they are dead letters. The order does not matter: the cursor goes to the last event before which all are. A shipper
// that was replaced gets ErrFenced, and must stop.
func (s *Store) Acknowledge(ctx context.Context, sink string, fence int64, scope rollout.RunName, ids ...string) error {
	if now, err := s.Fence(ctx, sink); err != nil {
		return err
	} else if now > fence {
		return fmt.Errorf("sink %s: fence %d, now %d: %w", sink, fence, now, ErrFenced)
	}
	from, to, moved := s.advance(sink, scope, ids)
	if !moved {
		return nil
	}
	ms, seq := split(to.id)
	ok, err := ackScript.Run(ctx, s.rdb, []string{s.cursorKey(scope, sink)}, fence, to.id, ms, seq,
		to.facts, to.samples, to.lostFacts, to.lostSamples, from.facts, from.samples).Int()
	if err != nil {
		s.retract(sink, scope, ids)
		return fmt.Errorf("acknowledge to sink %s: %w", sink, err)
	}
	if ok == 0 {
		return fmt.Errorf("sink %s: fence %d: %w", sink, fence, ErrFenced)
	}
	s.closeWindow(sink, scope)
	return nil
}

// lag is how far the cursor is behind what was written, where a page was read after it: numbers that are missing there
// are lost, and if the page is the last one, so are those after it that were written before it was read.
func (c cursor) lag(written cursor, page []Record, last bool) Lag {
	end := c
	for _, r := range page {
		end = end.past(placeOf(r))
	}
	lost := Lag{LostFacts: end.lostFacts, LostSamples: end.lostSamples}
	if last {
		lost.LostFacts += max(0, written.facts-end.facts)
		lost.LostSamples += max(0, written.samples-end.samples)
	}
	lost.Facts = max(0, written.facts-c.facts-(lost.LostFacts-c.lostFacts))
	lost.Samples = max(0, written.samples-c.samples-(lost.LostSamples-c.lostSamples))
	return lost
}

// past is the cursor behind a record. Numbers between the two are of events that were let go before they were listed.
func (c cursor) past(p place) cursor {
	c.id = p.id
	switch {
	case p.number == 0: // of a version that did not count
	case p.sample:
		c.lostSamples += max(0, p.number-c.samples-1)
		c.samples = max(c.samples, p.number)
	default:
		c.lostFacts += max(0, p.number-c.facts-1)
		c.facts = max(c.facts, p.number)
	}
	return c
}

func (s *Store) cursorKey(scope rollout.RunName, sink string) string {
	return s.scope(scope) + "cursor:" + sink
}
func (s *Store) writtenKey(scope rollout.RunName) string { return s.scope(scope) + "written" }
