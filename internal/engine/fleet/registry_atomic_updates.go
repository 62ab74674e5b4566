package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/redisscript"
)

// noteChange is the part of a script that records a change of an engine's values, for Watch: the last of KEYS gives
// each change a number, and each engine the number of its latest.
const noteChange = `
redis.call('ZADD', KEYS[#KEYS], redis.call('ZINCRBY', KEYS[#KEYS], 1, ''), ARGV[1])
`

// replaceScript sets a member's field of a hash that still has the value it was read with, empty for none. KEYS:
// members, the hash, changes. ARGV: id, value expected, new value. Answers 1 when it is set, 0 when the value is
// another, -1 for no member.
var replaceScript = redisscript.New(`
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return -1 end
if (redis.call('HGET', KEYS[2], ARGV[1]) or '') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
` + noteChange + `
return 1`)

// joinScript adds a member that is not there yet, unless its address is taken or the fleet is full. KEYS: members,
// history, compared, changes. ARGV: id, its JSON, the most members (0: no bound), now and forgottenWithin in ms, and
// what JSON says of its address, in each spelling. The others' JSON is searched for the address, not read: a thousand
// of them would hold up everybody for milliseconds. What a new member lists was not loaded by us, unless Redis may have
// forgotten it. Answers "joined", "there", "full", or the id that has the address.
var joinScript = redisscript.New(historyLua + `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return {'there'} end
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  for n = 6, #ARGV do
    if string.find(all[i + 1], ARGV[n], 1, true) then return {'taken', all[i]} end
  end
end
local most = tonumber(ARGV[3])
if most > 0 and #all / 2 >= most then return {'full', tostring(#all / 2)} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
local id = note_history(KEYS[2], ARGV[4])
local noted = redis.call('HMGET', KEYS[2], 'since', 'back')
if noted[2] == '0' or tonumber(ARGV[4]) - tonumber(noted[1]) > tonumber(ARGV[5]) then
  redis.call('HSET', KEYS[3], ARGV[1], id)
end
` + noteChange + `
return {'joined'}`)

// replaceTries bounds how often a change is made again because another one came between: each time, the other one
// was made.
const replaceTries = 100

// errContended is returned when others changed the same field again and again.
var errContended = errors.New("too many changes of it at the same moment; ask again")

// join makes m a member, or changes the member of its id and address as m says. explicit says that m's limit was
// asked for. Every step takes one connection and gives it back, so that any number of joins at once cannot lock
// each other out.
func (r *Registry) join(ctx context.Context, m Member, explicit bool) (Member, error) {
	most := int64(0)
	if m.Source == "" {
		most = r.most.Load()
	}
	value, err := json.Marshal(m)
	if err != nil {
		return m, err
	}
	args := []any{string(m.ID), value, most, r.now().UnixMilli(), forgottenWithin.Milliseconds()}
	for _, spelled := range spellings(m.URL) {
		address, err := json.Marshal(spelled)
		if err != nil {
			return m, err
		}
		args = append(args, `"url":`+string(address))
	}
	for range replaceTries {
		keys := []string{r.membersKey(), r.historyKey(), r.comparedKey(), r.changesKey()}
		answer, err := joinScript.Run(ctx, r.rdb, keys, args...).StringSlice()
		if err != nil {
			return m, redisError("join engine "+string(m.ID), err)
		}
		switch answer[0] {
		case "joined":
			return m, nil
		case "taken":
			return m, rollout.Refuse(rollout.Conflict, "%s is in the fleet already, as engine %s", m.URL, answer[1])
		case "full":
			return m, rollout.Refuse(rollout.QuotaExceeded,
				"engine %s: the fleet has %s engines, and limits.engines allows %d; "+
					"remove one, or raise limits.engines in the service configuration", m.ID, answer[1], most)
		}
		changed := m
		err = r.updateMember(ctx, m.ID, func(old *Member) error {
			if old.URL != m.URL {
				return rollout.Refuse(rollout.Conflict,
					"engine %s is at %s already; remove it first, or choose another id for %s", m.ID, old.URL, m.URL)
			}
			limit := m.MaxInFlight
			if !explicit {
				limit = old.MaxInFlight
			}
			added := old.AddedAt
			*old = m
			old.AddedAt, old.MaxInFlight = added, limit
			changed = *old
			return nil
		})
		if !rollout.Refused(err, rollout.NoSuchEngine) { // else it has left since
			return changed, err
		}
	}
	return m, fmt.Errorf("join engine %s: %w", m.ID, errContended)
}

// updateMember changes one member.
func (r *Registry) updateMember(ctx context.Context, id rollout.EngineID, change func(*Member) error) error {
	return r.replace(ctx, r.membersKey(), id, func(old string) (any, error) {
		if old == "" {
			return nil, noSuchEngine(id)
		}
		m, err := decode[Member]("member "+string(id), old)
		if err == nil {
			err = change(&m)
		}
		return m, err
	})
}

// replace makes an engine's value in a hash, empty for none, what change answers; nil leaves it. It reads, and
// writes only if the value is still the one that was read, with no connection held between the two.
func (r *Registry) replace(
	ctx context.Context, key string, id rollout.EngineID, change func(old string) (any, error),
) error {
	for range replaceTries {
		old, err := r.rdb.HGet(ctx, key, string(id)).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return redisError("read engine "+string(id), err)
		}
		value, err := change(old)
		if err != nil || value == nil {
			return err
		}
		b, err := json.Marshal(value)
		if err != nil {
			return err
		}
		done, err := replaceScript.Run(ctx, r.rdb, []string{r.membersKey(), key, r.changesKey()}, string(id), old, b).Int()
		switch {
		case err != nil:
			return redisError("change engine "+string(id), err)
		case done < 0:
			return noSuchEngine(id)
		case done > 0:
			return nil
		}
	}
	return fmt.Errorf("engine %s: %w", id, errContended)
}

// redisError is what doing something with Redis met with, nil for nothing; when no connection was free it is a refusal
// as unavailable.
func redisError(doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, redis.ErrPoolTimeout) {
		refusal := rollout.Refuse(rollout.Unavailable, "%s: every connection to Redis is in use; ask again", doing)
		return fmt.Errorf("%s: %w", doing, refusal)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
