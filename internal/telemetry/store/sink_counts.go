package store

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/redisscript"
	"github.com/millrace/millrace/internal/rollout"
)

// What is counted of a sink lies where one script can count it with what it counts: in the cursor of each scope how
// much it has passed, with the sinks what was refused, replayed and dropped. The sink's sums are read from all of them.
// A scope that is erased leaves its counts with the sinks: as a note first, 'erased SINK SCOPE', and, when the scope is
// gone, in the sums 'passed SINK', 'lost f SINK' and 'lost s SINK'. Notes are told apart from scopes that are still
// there, or there again, by the id of the scope's first event.

// sums is what became of events that were written while a sink was known.
type sums struct {
	written                int64
	passed                 int64 // behind the cursors, less those that were lost before
	lostFacts, lostSamples int64
	waiting                int64
}

func (a *sums) add(b sums) {
	a.written += b.written
	a.passed += b.passed
	a.lostFacts += b.lostFacts
	a.lostSamples += b.lostSamples
	a.waiting += b.waiting
}

// erased is a note of what was counted in a scope.
type erased struct {
	sink  string
	scope rollout.RunName
	first string // id of its first event
	sums
}

// noteErased notes what is counted in a scope that is about to be erased. What a sink has not got of it is lost.
func (s *Store) noteErased(ctx context.Context, sink string, scope rollout.RunName, end scopeEnd) error {
	in, err := s.scopeSums(ctx, sink, scope)
	if err != nil {
		return err
	}
	at, written, err := s.cursorAt(ctx, sink, scope)
	if err != nil {
		return err
	}
	if in.waiting > 0 {
		in.lostFacts += max(0, written.facts-at.facts)
		in.lostSamples += max(0, written.samples-at.samples)
	}
	note := fmt.Sprintf("%s %d %d %d", end.first, in.passed, in.lostFacts, in.lostSamples)
	if err := s.rdb.HSet(ctx, s.sinksKey(), "erased "+sink+" "+string(scope), note).Err(); err != nil {
		return fmt.Errorf("note what is erased: %w", err)
	}
	return nil
}

func readErased(field, value string) (note erased, is bool) {
	rest, is := strings.CutPrefix(field, "erased ")
	if !is {
		return note, false
	}
	sink, scope, _ := strings.Cut(rest, " ")
	note.sink, note.scope = sink, rollout.RunName(scope)
	words := strings.Split(value, " ")
	if len(words) != 4 {
		return note, false
	}
	note.first = words[0]
	note.passed, _ = strconv.ParseInt(words[1], 10, 64) // noteErased wrote it
	note.lostFacts, _ = strconv.ParseInt(words[2], 10, 64)
	note.lostSamples, _ = strconv.ParseInt(words[3], 10, 64)
	note.written = note.passed + note.lostFacts + note.lostSamples
	return note, true
}

// foldScript ends a note. KEYS: all sinks. ARGV: the note's field and value, 1 if its scope is erased, the sink, and
// what the note counts: events passed, facts and samples lost.
var foldScript = redisscript.New(`
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
if ARGV[3] ~= '1' then return 0 end
redis.call('HINCRBY', KEYS[1], 'passed ' .. ARGV[4], ARGV[5])
redis.call('HINCRBY', KEYS[1], 'lost f ' .. ARGV[4], ARGV[6])
redis.call('HINCRBY', KEYS[1], 'lost s ' .. ARGV[4], ARGV[7])
return 1`)

// scopeSums is what is counted in one scope.
func (s *Store) scopeSums(ctx context.Context, sink string, scope rollout.RunName) (sums, error) {
	in, _, err := s.allScopeSums(ctx, sink, []rollout.RunName{scope})
	return in[scope], err
}

// allScopeSums is what is counted in some scopes, and the ids of their first events.
func (s *Store) allScopeSums(ctx context.Context, sink string,
	scopes []rollout.RunName) (in map[rollout.RunName]sums, first map[rollout.RunName]string, err error) {
	kept := make([]*redis.MapStringStringCmd, len(scopes))
	counts := make([]*redis.MapStringStringCmd, len(scopes))
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, scope := range scopes {
			kept[i] = p.HGetAll(ctx, s.cursorKey(scope, sink))
			counts[i] = p.HGetAll(ctx, s.writtenKey(scope))
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("counts of sink %s: %w", sink, err)
	}
	since, err := s.since(ctx, sink)
	if err != nil {
		return nil, nil, err
	}
	in, first = map[rollout.RunName]sums{}, map[rollout.RunName]string{}
	for i, scope := range scopes {
		first[scope] = counts[i].Val()["first"]
		last := counts[i].Val()["last"]
		if last == "" || kept[i].Val()["id"] == "" && earlier(last, beginning(since)) {
			continue // nothing is written, or nothing that the sink is to have
		}
		if in[scope], err = s.sumsOf(ctx, sink, scope, kept[i].Val(), counts[i].Val()); err != nil {
			return nil, nil, err
		}
	}
	return in, first, nil
}

// sumsOf reads a scope's cursor and what was written there. What a cursor of an earlier version had passed before this
// one moved it is in the sink's sums.
func (s *Store) sumsOf(ctx context.Context, sink string, scope rollout.RunName,
	kept, counts map[string]string) (sums, error) {
	n := func(fields map[string]string, name string) int64 {
		v, _ := strconv.ParseInt(fields[name], 10, 64) // missing is 0, and all else a script wrote
		return v
	}
	if kept["id"] == "" {
		at, written, err := s.cursorAt(ctx, sink, scope)
		waiting := max(0, written.facts-at.facts) + max(0, written.samples-at.samples)
		return sums{written: waiting, waiting: waiting}, err
	}
	from := kept
	if kept["from f"] != "" {
		from = map[string]string{}
		for name, value := range kept {
			if name, is := strings.CutPrefix(name, "from "); is {
				from[name] = value
			}
		}
	}
	all := func(fields map[string]string) int64 { return n(fields, "f") + n(fields, "s") }
	out := sums{written: all(counts) - all(from), waiting: max(0, all(counts)-all(kept)),
		lostFacts: n(kept, "lost f") - n(from, "lost f"), lostSamples: n(kept, "lost s") - n(from, "lost s")}
	out.passed = all(kept) - all(from) - out.lostFacts - out.lostSamples
	return out, nil
}

// sinkSums is what is counted of a sink over all scopes, those that are erased, too. other is the further counts that
// are kept with the sinks, by their names without the sink's.
func (s *Store) sinkSums(ctx context.Context, sink string) (total sums, other map[string]int64, err error) {
	const tries = 3 // in which a scope may have been erased while they were read
	var before map[string]string
	for range tries {
		fields, err := s.rdb.HGetAll(ctx, s.sinksKey()).Result()
		if err != nil {
			return sums{}, nil, fmt.Errorf("counts of sink %s: %w", sink, err)
		}
		if counted := countsOf(fields, sink); before != nil && maps.Equal(counted, before) {
			break
		} else {
			before = counted
		}
		if total, other, err = s.sumUp(ctx, sink, before); err != nil {
			return sums{}, nil, err
		}
	}
	return total, other, nil
}

// countsOf is those fields of all sinks that count something of one.
func countsOf(fields map[string]string, sink string) map[string]string {
	counted := map[string]string{}
	for name, value := range fields {
		note, is := readErased(name, value)
		if is && note.sink == sink {
			counted[name] = value
		}
		if what, is := strings.CutSuffix(name, " "+sink); is && what != "since" && what != "seen" {
			counted[name] = value
		}
	}
	return counted
}

func (s *Store) sumUp(ctx context.Context, sink string, counted map[string]string) (sums, map[string]int64, error) {
	// A scope may be found done, or be opened again, meanwhile: it is where it comes to before it leaves where it was.
	before, err := s.openScopes(ctx)
	if err != nil {
		return sums{}, nil, err
	}
	since, err := s.since(ctx, sink)
	if err != nil {
		return sums{}, nil, err
	}
	if err := s.learnDone(ctx, sink, since); err != nil {
		return sums{}, nil, err
	}
	after, err := s.openScopes(ctx)
	if err != nil {
		return sums{}, nil, err
	}
	scopes := append(before, after...)
	var notes []erased
	other := map[string]int64{}
	for name, value := range counted {
		if note, is := readErased(name, value); is {
			notes = append(notes, note)
			continue
		}
		other[strings.TrimSuffix(name, " "+sink)], _ = strconv.ParseInt(value, 10, 64) // a script wrote it
	}
	for _, note := range notes {
		scopes = append(scopes, note.scope)
	}
	scopes = sorted(scopes)
	in, first, err := s.allScopeSums(ctx, sink, scopes)
	if err != nil {
		return sums{}, nil, err
	}
	total := s.doneBut(sink, since, scopes)
	for _, of := range in {
		total.add(of)
	}
	total.passed += other["passed"]
	total.lostFacts += other["lost f"]
	total.lostSamples += other["lost s"]
	total.written += other["passed"] + other["lost f"] + other["lost s"]
	for _, note := range notes {
		if first[note.scope] != note.first {
			total.add(note.sums)
		}
	}
	return total, other, nil
}
