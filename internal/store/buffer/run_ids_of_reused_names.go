package buffer

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/redisscript"
)

// A name may be used again once its run was deleted. The new run has an id of its own, NAME@2 and so on. Nothing of the
// run before can reach it: no worker that wakes up, no engine with an old adapter, no late signal.

// lives is a hash: name -> number of the life that the name is in, when the one before was deleted (Unix seconds),
// and the highest generation that a trainer process of it had. A name that is missing is in its first life.
func (s *Store) lives() string { return s.prefix + ":lives" }

// ID is the id of the run that a name stands for now, whether there is one or not. The id of a run that was deleted
// is refused as NoSuchRun.
func (s *Store) ID(ctx context.Context, name rollout.RunName) (rollout.RunName, error) {
	if err := name.ValidateID(); err != nil {
		return "", rollout.Refuse(rollout.Invalid, "%v", err)
	}
	plain := name.Plain()
	life, deleted, err := s.life(ctx, plain)
	if err != nil {
		return "", err
	}
	id := plain.InLife(life)
	if name != plain && name != id {
		if name.Life() < life {
			earlier := plain.InLife(name.Life())
			known, err := s.rdb.Exists(ctx, s.key(earlier, "run")).Result() // begun while Redis had forgotten the later one
			if err != nil {
				return "", trouble("look for a run", err)
			}
			if known == 1 {
				return earlier, nil
			}
			return "", rollout.Refuse(rollout.NoSuchRun, "run %s was deleted on %s; `millrace run list` shows the "+
				"runs", name, deleted)
		}
		return "", noSuchRun(name)
	}
	return id, nil
}

func (s *Store) life(ctx context.Context, name rollout.RunName) (life int, deleted string, err error) {
	fields, err := s.lifeOf(ctx, name)
	return int(fields[0]), time.Unix(fields[1], 0).UTC().Format(time.RFC3339), err
}

// lastGeneration is at least every generation that a trainer process of an earlier run of the name had.
func (s *Store) lastGeneration(ctx context.Context, name rollout.RunName) (int64, error) {
	fields, err := s.lifeOf(ctx, name)
	return fields[2], err
}

// lifeOf reads the lives hash for a name.
func (s *Store) lifeOf(ctx context.Context, name rollout.RunName) (fields [3]int64, err error) {
	text, err := s.rdb.HGet(ctx, s.lives(), string(name)).Result()
	if err == redis.Nil {
		return [3]int64{1}, nil
	}
	if err != nil {
		return fields, trouble("look for a run", err)
	}
	for i, field := range strings.Fields(text)[:min(len(fields), len(strings.Fields(text)))] {
		if fields[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			return fields, fmt.Errorf("life of the name %s: %q", name, text)
		}
	}
	return fields, nil
}

// liveScript raises the life of a name and its highest generation, and never lowers them.
// KEYS: lives. ARGV: name, life, when the one before was deleted, generation.
var liveScript = redisscript.New(`
local life, at, generation = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '1', '^(%d+) ?(%d*) ?(%d*)$')
if tonumber(ARGV[2]) > tonumber(life) then life, at = ARGV[2], ARGV[3] end
if at == '' then at = ARGV[3] end
if tonumber(ARGV[4]) > (tonumber(generation) or 0) then generation = ARGV[4] end
if generation == '' then generation = '0' end
redis.call('HSET', KEYS[1], ARGV[1], life .. ' ' .. at .. ' ' .. generation)
return 1`)

// live makes an id's life the current one of its name, unless a later one is, and records the highest generation given.
func (s *Store) live(ctx context.Context, name rollout.RunName, life int, generation int64) error {
	if life == 1 && generation == 0 {
		return nil
	}
	return trouble("begin the next life of a name",
		liveScript.Run(ctx, s.rdb, []string{s.lives()}, string(name), life, s.now().Unix(), generation).Err())
}
