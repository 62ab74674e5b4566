package memorycost

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/trials/bench/benchservice"
)

// The kinds of keys, in the order of tables.
const (
	Groups   = "trajectories of groups"
	Journals = "journals of games in play"
	Finals   = "states of finished games"
	Attempts = "attempts of games"
	Steps    = "records of steps"
	Account  = "rest of the account"
	Events   = "events"
	Others   = "engines, workers, everything else"
	NoKey    = "in no key"
)

var kindsOfKeys = []string{Groups, Journals, Finals, Attempts, Steps, Account, Events, Others, NoKey}

// Store is what Redis holds: bytes and keys by kind.
type Store struct {
	Bytes map[string]int64 `json:"bytes"`
	Keys  map[string]int64 `json:"keys"`
	Used  int64            `json:"used_memory_bytes"`
	// Resident is what the kernel counts: Used, and what lies fallow between.
	Resident int64 `json:"resident_bytes"`
}

func (s Store) minus(of Store) Store {
	d := Store{Bytes: map[string]int64{}, Keys: map[string]int64{}, Used: s.Used - of.Used,
		Resident: s.Resident - of.Resident}
	for _, kind := range kindsOfKeys {
		d.Bytes[kind], d.Keys[kind] = s.Bytes[kind]-of.Bytes[kind], s.Keys[kind]-of.Keys[kind]
	}
	return d
}

// kindOf is what a key is for, by its name.
func kindOf(key string) string {
	_, name, found := strings.Cut(key, "}:")
	if !found || strings.Contains(key, "{fleet}") {
		return Others
	}
	kind, _, _ := strings.Cut(name, ":")
	switch kind {
	case "group":
		return Groups
	case "journal":
		return Journals
	case "final":
		return Finals
	case "games":
		return Attempts
	case "step":
		return Steps
	case "facts", "samples", "events", "kinds", "written", "told":
		return Events
	}
	return Account
}

// scanAtOnce is how many keys are asked for at a time.
const scanAtOnce = 1000

// redisMemory looks at every key.
func redisMemory(ctx context.Context, s *benchservice.Service) (Store, error) {
	found := Store{Bytes: map[string]int64{}, Keys: map[string]int64{}}
	for name, to := range map[string]*int64{"used_memory": &found.Used, "used_memory_rss": &found.Resident} {
		n, err := s.RedisNumber(ctx, name)
		if err != nil {
			return found, err
		}
		*to = int64(n)
	}
	var cursor uint64
	sum := int64(0)
	for {
		keys, next, err := s.Redis.Scan(ctx, cursor, "*", scanAtOnce).Result()
		if err != nil {
			return found, fmt.Errorf("list the keys of Redis: %w", err)
		}
		sizes := make([]*redis.IntCmd, len(keys))
		_, err = s.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range keys {
				sizes[i] = p.MemoryUsage(ctx, key, 0)
			}
			return nil
		})
		if err != nil && err != redis.Nil { // a key has gone meanwhile
			return found, fmt.Errorf("ask Redis for the sizes of keys: %w", err)
		}
		for i, key := range keys {
			kind, size := kindOf(key), sizes[i].Val()
			found.Bytes[kind] += size
			found.Keys[kind]++
			sum += size
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	found.Bytes[NoKey] = found.Used - sum
	return found, nil
}
