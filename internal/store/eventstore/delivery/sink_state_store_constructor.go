// Package delivery feeds the sink from the streams of the event store, and lets go of what neither the sink nor a
// reader needs. Only servers do so. Unshipped lists what lies behind the sink's cursor, Acknowledge moves the cursor,
// Lease sees to it that one shipper does; Trim keeps the bounds. What is not shipped is let go only above a bound, and
// counted. There is one sink.
//
// Start reading at Sink, then sink_cursor_and_unshipped_events.go.
package delivery

import (
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/redisscript"
	"github.com/millrace/millrace/internal/store/runindex"
)

// atOnce is how many events are read at once, or dead letters taken away.
const atOnce = 256

// Sink is what is known of the sink, beside the events.
type Sink struct {
	redis  redis.UniversalClient
	prefix string
	limits store.Limits
	events *store.Store
	runs   runindex.Index
	replay *redis.Script // takes dead letters away
}

// New is the sink of the events of a store under prefix.
func New(rdb redis.UniversalClient, prefix string, events *store.Store) *Sink {
	return &Sink{redis: rdb, prefix: prefix, limits: events.Limits, events: events, runs: runindex.New(rdb, prefix),
		replay: redisscript.New(events.Limits.Lua() + takeLetters)}
}

func (s *Sink) keys(scope rollout.RunName) store.Keys { return store.KeysOf(s.prefix, scope) }
