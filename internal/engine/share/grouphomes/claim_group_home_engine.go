// Package grouphomes is where workers agree on the engines where the games of a group begin, in Redis: a key for each
// group, wherever its hash slot is, for as long as games of it may begin. Start reading at Store.
package grouphomes

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/redisscript"
)

// keptFor is how long a group's homes are kept after a game of it has begun: longer than a group takes to begin. A game
// that begins again after that, because its worker died, finds a cold cache wherever it goes.
const keptFor = time.Hour

// Store keeps homes under a prefix.
type Store struct {
	rdb    redis.UniversalClient
	prefix string
}

// New makes a store.
func New(rdb redis.UniversalClient, prefix string) *Store { return &Store{rdb: rdb, prefix: prefix} }

var claimScript = redisscript.New(`
local at = redis.call('HGET', KEYS[1], ARGV[1])
if not at or at == ARGV[3] then
  at = ARGV[2]
  redis.call('HSET', KEYS[1], ARGV[1], at)
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return at`)

// Claim returns the engine where a part of a group's games begin: the one that was proposed first. A lost one is
// replaced once, by the first worker that reports the loss.
func (s *Store) Claim(ctx context.Context, group rollout.GroupRef, part int, proposal, lost rollout.EngineID) (
	rollout.EngineID, error,
) {
	key := fmt.Sprintf("%s:home:{%s}", s.prefix, group)
	at, err := claimScript.Run(ctx, s.rdb, []string{key}, part, string(proposal), string(lost),
		keptFor.Milliseconds()).Text()
	if err != nil {
		return "", fmt.Errorf("claim the home of %s: %w", group, err)
	}
	return rollout.EngineID(at), nil
}
