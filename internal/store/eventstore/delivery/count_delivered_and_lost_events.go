package delivery

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/redisscript"
)

// The sink's counts lie where one script can update them together with what they count. The cursor of each scope counts
// the events passed; the sink's hash counts those refused, replayed and dropped. When a scope is done, its cursor's
// counts are added to the sink's sums, in the fields passed, 'lost f' and 'lost s'. The hash counted says which part of
// a scope is in the sums: "FIRST LAST PASSED LOST-FACTS LOST-SAMPLES", with the ids of its first and last event. So a
// scope may be added repeatedly, and only new events count. A different first event means a different scope.

// sums counts the outcomes of events that were written while the sink was known.
type sums struct{ passed, lostFacts, lostSamples, waiting int64 }

// sums counts the outcomes of a scope's events.
func (p progress) sums() sums {
	c := p.at
	passed := c.facts - c.fromFacts + c.samples - c.fromSamples - c.lostFacts - c.lostSamples
	return sums{passed, c.lostFacts, c.lostSamples, max(0, p.facts-c.facts) + max(0, p.samples-c.samples)}
}

// countScript adds what is new in a scope. KEYS: the sink, counted. ARGV: scope, first, last, passed, lost facts and
// samples.
var countScript = redisscript.New(`
local was = redis.call('HGET', KEYS[2], ARGV[1]) or ''
local first, passed, facts, samples = string.match(was, '^(%S+) %S+ (%-?%d+) (%d+) (%d+)$')
if first ~= ARGV[2] then passed, facts, samples = 0, 0, 0 end
local new = {passed = ARGV[4] - passed, ['lost f'] = ARGV[5] - facts, ['lost s'] = ARGV[6] - samples}
for field, n in pairs(new) do
  if n ~= 0 then redis.call('HINCRBY', KEYS[1], field, n) end
end
return redis.call('HSET', KEYS[2], ARGV[1], table.concat(ARGV, ' ', 2))`)

// count adds what a scope's cursor counts to the sink's sums.
func (s *Sink) count(ctx context.Context, scope rollout.RunName, p progress) error {
	if p.last == "" {
		return nil
	}
	of := p.sums()
	err := countScript.Run(ctx, s.redis, []string{s.sinkKey(), s.countedKey()}, string(scope), p.first, p.last, of.passed,
		of.lostFacts, of.lostSamples).Err()
	if err != nil {
		return fmt.Errorf("count the events of %q: %w", scope, err)
	}
	return nil
}

// counted is the part of a scope that is in the sums; zero if the note is about another scope.
func counted(note any, first string) sums {
	text, _ := note.(string)
	words := strings.Fields(text)
	if len(words) != 5 || words[0] != first {
		return sums{}
	}
	return sums{passed: store.Number(words[2]), lostFacts: store.Number(words[3]), lostSamples: store.Number(words[4])}
}

// sums adds up all scopes, including erased ones, and returns the sink's other fields.
func (s *Sink) sums(ctx context.Context) (total sums, fields map[string]string, err error) {
	const tries = 3 // in which a scope may have been erased while they were read
	for range tries {
		before, err := s.redis.HMGet(ctx, s.sinkKey(), "erased").Result()
		if err != nil {
			return total, nil, fmt.Errorf("counts of the sink: %w", err)
		}
		if total, fields, err = s.readSums(ctx); err != nil {
			return total, nil, err
		}
		if was, _ := before[0].(string); was == fields["erased"] {
			break
		}
	}
	return total, fields, nil
}

// readSums reads the cursors of the open scopes, then the sums and the parts of these scopes that are in them.
func (s *Sink) readSums(ctx context.Context) (sums, map[string]string, error) {
	scopes, err := s.openScopes(ctx)
	if err != nil {
		return sums{}, nil, err
	}
	in, err := s.progressIn(ctx, scopes...)
	if err != nil {
		return sums{}, nil, err
	}
	names := make([]string, len(scopes))
	for i, scope := range scopes {
		names[i] = string(scope)
	}
	var of *redis.MapStringStringCmd
	var notes *redis.SliceCmd
	_, err = s.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		of, notes = p.HGetAll(ctx, s.sinkKey()), p.HMGet(ctx, s.countedKey(), names...)
		return nil
	})
	if err != nil {
		return sums{}, nil, fmt.Errorf("counts of the sink: %w", err)
	}
	fields := of.Val()
	total := sums{passed: store.Number(fields["passed"]), lostFacts: store.Number(fields["lost f"]),
		lostSamples: store.Number(fields["lost s"])}
	for i := range scopes {
		now := in[i].sums()
		was := counted(notes.Val()[i], in[i].first)
		total.passed += now.passed - was.passed
		total.lostFacts += now.lostFacts - was.lostFacts
		total.lostSamples += now.lostSamples - was.lostSamples
		total.waiting += now.waiting
	}
	return total, fields, nil
}

func (s *Sink) countedKey() string { return s.keys("").Of("counted") }
