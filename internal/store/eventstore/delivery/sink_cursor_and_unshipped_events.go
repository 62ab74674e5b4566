package delivery

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/redisscript"
)

// The sink has a cursor in every scope: a run, a deleted run with unshipped events, or the fleet. All events up to the
// cursor are dealt with. Delivery is at least once: events that were sent and not acknowledged are listed again.

// cursor is how far the sink has come in a scope.
type cursor struct {
	id                     string
	facts, samples         int64 // numbers of the latest of each up to the cursor
	lostFacts, lostSamples int64 // of these, let go before they were shipped
	fromFacts, fromSamples int64 // the numbers behind which it began
}

// progress is the sink's cursor in a scope, and the extent of what was written there.
type progress struct {
	at             cursor
	since          string // the sink gets events from here on; empty: there is no sink
	first, last    string // ids of events; empty: nothing was written
	facts, samples int64
}

// isShipped reports whether the sink has got all that was written.
func (p progress) isShipped() bool { return p.last == "" || !store.Earlier(p.at.id, p.last) }

// progressIn reads how far the sink has come in some scopes.
func (s *Sink) progressIn(ctx context.Context, scopes ...rollout.RunName) ([]progress, error) {
	var since *redis.SliceCmd
	cursors := make([]*redis.MapStringStringCmd, len(scopes))
	written := make([]*redis.MapStringStringCmd, len(scopes))
	_, err := s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		since = p.HMGet(ctx, s.sinkKey(), "since")
		for i, scope := range scopes {
			cursors[i] = p.HGetAll(ctx, s.cursorKey(scope))
			written[i] = p.HGetAll(ctx, s.keys(scope).Of("written"))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("progress of the sink: %w", err)
	}
	all := make([]progress, len(scopes))
	for i, scope := range scopes {
		of := written[i].Val()
		all[i] = progress{first: of["first"], last: of["last"], facts: store.Number(of["f"]), samples: store.Number(of["s"])}
		all[i].since, _ = since.Val()[0].(string) // missing is empty
		if kept := cursors[i].Val(); kept["id"] != "" && kept["since"] == all[i].since {
			all[i].at = cursor{kept["id"], store.Number(kept["f"]), store.Number(kept["s"]), store.Number(kept["lost f"]),
				store.Number(kept["lost s"]), store.Number(kept["from f"]), store.Number(kept["from s"])}
		} else if all[i].at, err = s.beginning(ctx, scope, all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// beginning is a cursor that was not moved yet: before the events that the sink is to have. Where there is no sink,
// or nothing is for it, that is the end.
func (s *Sink) beginning(ctx context.Context, scope rollout.RunName, p progress) (cursor, error) {
	c := cursor{id: strconv.FormatInt(max(0, store.Number(p.since)), 10) + "-0"}
	switch {
	case p.since == "":
		c.id = p.last
		fallthrough
	case p.last == "" || store.Earlier(p.last, c.id):
		c.facts, c.samples = p.facts, p.samples
	case store.Earlier(p.first, c.id):
		var err error
		if c.facts, c.samples, err = s.numbersBefore(ctx, scope, c.id, p); err != nil {
			return c, err
		}
	}
	c.fromFacts, c.fromSamples = c.facts, c.samples
	return c, nil
}

// numbersBefore is how many facts and samples were written up to an id: those before the next that is kept.
func (s *Sink) numbersBefore(ctx context.Context, scope rollout.RunName, id string, p progress) (
	facts, samples int64, err error) {
	facts, samples = p.facts, p.samples
	var found [2]bool
	for !found[0] || !found[1] {
		page, err := s.events.Recent(ctx, scope, id, atOnce)
		if err != nil || len(page) == 0 {
			return facts, samples, err
		}
		for _, r := range page {
			switch {
			case r.Droppable && !found[1]:
				samples, found[1] = r.Number-1, true
			case !r.Droppable && !found[0]:
				facts, found[0] = r.Number-1, true
			}
		}
		id = page[len(page)-1].ID
	}
	return facts, samples, nil
}

// Scopes lists where there are events after the sink's cursor.
func (s *Sink) Scopes(ctx context.Context) ([]rollout.RunName, error) {
	all, err := s.openScopes(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.progressIn(ctx, all...)
	if err != nil {
		return nil, err
	}
	var behind []rollout.RunName
	for i, scope := range all {
		if !found[i].isShipped() {
			behind = append(behind, scope)
		}
	}
	return behind, nil
}

// Portion is a list of a scope's events that the sink lacks, oldest first. A shipper may deal with a part: events that
// it leaves out at the end are listed again.
type Portion struct {
	Scope   rollout.RunName
	Records []store.Record
	Last    string // id of the last event of the scope
	from    cursor
	since   string
}

// More reports whether there are events of the scope behind those of the portion.
func (p Portion) More() bool {
	return len(p.Records) == 0 || store.Earlier(p.Records[len(p.Records)-1].ID, p.Last)
}

// Unshipped lists up to limit events after the sink's cursor: facts, and samples as far as they are kept.
func (s *Sink) Unshipped(ctx context.Context, scope rollout.RunName, limit int) (Portion, error) {
	found, err := s.progressIn(ctx, scope)
	if err != nil {
		return Portion{}, err
	}
	p := Portion{Scope: scope, Last: found[0].last, from: found[0].at, since: found[0].since}
	p.Records, err = s.events.Recent(ctx, scope, p.from.id, limit)
	return p, err
}

// Acknowledge records that the events of a portion are dealt with: the sink has them, or has refused them and they are
// dead letters. A shipper that was replaced gets ErrFenced, and must stop.
func (s *Sink) Acknowledge(ctx context.Context, fence int64, p Portion) error {
	if now, err := s.fence(ctx); err != nil {
		return err
	} else if now > fence {
		return fmt.Errorf("fence %d, now %d: %w", fence, now, ErrFenced)
	}
	to := p.from
	for _, r := range p.Records {
		to = to.past(r)
	}
	return s.moveCursor(ctx, fence, p.Scope, p.since, to)
}

// past is the cursor behind a record. Numbers between the two are of events that were let go before they were listed.
func (c cursor) past(r store.Record) cursor {
	c.id = r.ID
	if r.Droppable {
		c.lostSamples += max(0, r.Number-c.samples-1)
		c.samples = max(c.samples, r.Number)
	} else {
		c.lostFacts += max(0, r.Number-c.facts-1)
		c.facts = max(c.facts, r.Number)
	}
	return c
}

// giveUp counts all of a scope's unshipped events as lost.
func (s *Sink) giveUp(ctx context.Context, scope rollout.RunName, p *progress) error {
	fence, err := s.fence(ctx)
	if err != nil {
		return err
	}
	c := p.at
	c.id = p.last
	c.lostFacts += max(0, p.facts-c.facts)
	c.lostSamples += max(0, p.samples-c.samples)
	c.facts, c.samples = max(c.facts, p.facts), max(c.samples, p.samples)
	p.at = c
	return s.moveCursor(ctx, fence, scope, p.since, c)
}

// cursorScript moves a cursor, and never back. A cursor of a sink that was forgotten counts as missing. KEYS: the
// cursor. ARGV: fence, since when the sink gets events, ms and sequence of the id, then fields and values. Answers 0 if
// fenced off.
var cursorScript = redisscript.New(`
local was = redis.call('HMGET', KEYS[1], 'since', 'fence', 'id')
if was[1] == ARGV[2] then
  if tonumber(ARGV[1]) < tonumber(was[2]) then return 0 end
  local ms, seq = string.match(was[3], '^(%d+)-(%d+)$')
  ms, seq = tonumber(ms), tonumber(seq)
  if ms > tonumber(ARGV[3]) or ms == tonumber(ARGV[3]) and seq >= tonumber(ARGV[4]) then return 1 end
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'since', ARGV[2], unpack(ARGV, 5))
return 1`)

func (s *Sink) moveCursor(ctx context.Context, fence int64, scope rollout.RunName, since string, to cursor) error {
	ms, seq := store.SplitID(to.id)
	ok, err := cursorScript.Run(ctx, s.redis, []string{s.cursorKey(scope)}, fence, since, ms, seq,
		"id", to.id, "f", to.facts, "s", to.samples, "lost f", to.lostFacts, "lost s", to.lostSamples,
		"from f", to.fromFacts, "from s", to.fromSamples).Int()
	switch {
	case err != nil:
		return fmt.Errorf("acknowledge events of %q: %w", scope, err)
	case ok == 0:
		return fmt.Errorf("fence %d: %w", fence, ErrFenced)
	}
	return nil
}

func (s *Sink) cursorKey(scope rollout.RunName) string { return s.keys(scope).Of("cursor") }
