package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/redisscript"
)

// Redis may come back older than it was, and then records of loads are missing. The fleet knows the history of its
// Redis by its replication id, which changes with each restart and promotion. For each engine it keeps the history
// under which the engine's records were compared with its list of adapters. If the history has changed since, it
// compares again: adapters that are listed without a record then are to be loaded again; those that appear later
// without one belong to somebody else, as ever.

// forgottenWithin is how long after Redis has gone back an engine that joins may be one that Redis has forgotten.
const forgottenWithin = 10 * time.Minute

// listedAtMost bounds how many of an engine's unrecorded names are kept: engines may list any number.
const listedAtMost = 1024

// historyLua gives a script the history of its Redis, empty where Redis does not tell, and notes a new one. The key has
// the latest history, since when, and whether there was another one before.
const historyLua = `
local function history()
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or ''
end
local function note_history(key, now)
  local id, known = history(), redis.call('HGET', key, 'id')
  if known ~= id then
    redis.call('HSET', key, 'id', id, 'since', now, 'back', known and 1 or 0)
  end
  return id
end
`

// loadsScript answers the history of Redis, whether the records of an engine were compared under it, and the records.
// KEYS: records, history, compared. ARGV: engine, now in ms.
var loadsScript = redisscript.New(historyLua + `
local id = note_history(KEYS[2], ARGV[2])
local compared = redis.call('HGET', KEYS[3], ARGV[1]) == id and 1 or 0
return {id, compared, redis.call('HGETALL', KEYS[1])}`)

// compareScript notes what an engine lists without a record, and that its records were compared; not if Redis has
// another history by now. KEYS: records, compared. ARGV: engine, history, then names, each with its record.
var compareScript = redisscript.New(historyLua + `
if history() ~= ARGV[2] then return 0 end
for i = 3, #ARGV, 2 do redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return 1`)

// doubtScript has the records of all engines compared again. KEYS: history, compared. ARGV: now in ms.
var doubtScript = redisscript.New(historyLua + `
redis.call('HSET', KEYS[1], 'id', history(), 'since', ARGV[1], 'back', 1)
redis.call('DEL', KEYS[2])
return 1`)

// historyScript answers the history of Redis. KEYS: history. ARGV: now in ms.
var historyScript = redisscript.New(historyLua + `return note_history(KEYS[1], ARGV[1])`)

// lastHistory is the history of Redis that a process has seen last.
type lastHistory struct {
	mu sync.Mutex
	id string
}

// returned takes in a history, and reports whether there was another one since: a master that was cut off and serves
// again has its own history, and does not know what another one was told.
func (h *lastHistory) returned(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.id
	h.id = id
	return before != "" && before != id
}

// ComparedLoads lists the loads that an engine was asked for, by name. If Redis has gone back since the records were
// last compared, it compares them now: listed has the path of each adapter that the engine lists.
func (r *Registry) ComparedLoads(
	ctx context.Context, id rollout.EngineID, listed map[string]string,
) (map[string]LoadRecord, error) {
	for range replaceTries {
		history, compared, records, err := r.loads(ctx, id)
		if err == nil && r.history.returned(history) && compared {
			err, compared = r.DoubtLoads(ctx), false
		}
		if err != nil || compared {
			return records, err
		}
		if err := r.recordListed(ctx, id, history, listed, records); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("compare what %s was asked to load with what it lists: %w", id, errContended)
}

// loads reads an engine's records, and whether they were compared under the present history of Redis.
func (r *Registry) loads(
	ctx context.Context, id rollout.EngineID,
) (history string, compared bool, records map[string]LoadRecord, err error) {
	keys := []string{r.loadsKey(id), r.historyKey(), r.comparedKey()}
	answer, err := loadsScript.Run(ctx, r.rdb, keys, string(id), r.now().UnixMilli()).Slice()
	if err != nil {
		return "", false, nil, fmt.Errorf("read what %s was asked to load: %w", id, err)
	}
	history, _ = answer[0].(string)
	is, _ := answer[1].(int64)
	pairs, _ := answer[2].([]any)
	values := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		values[name], _ = pairs[i+1].(string)
	}
	records, err = decodeLoadRecords(id, values)
	return history, is == 1, records, err
}

// recordListed records that an engine's records are compared, and its adapters without a record.
func (r *Registry) recordListed(
	ctx context.Context, id rollout.EngineID, history string, listed map[string]string, records map[string]LoadRecord,
) error {
	args := []any{string(id), history}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if _, known := records[name]; known || len(args) >= 2+2*listedAtMost {
			continue
		}
		b, err := json.Marshal(LoadRecord{Path: listed[name], At: r.now().UTC(), Reload: true})
		if err != nil {
			return err
		}
		args = append(args, name, b)
	}
	err := compareScript.Run(ctx, r.rdb, []string{r.loadsKey(id), r.comparedKey()}, args...).Err()
	return redisError(fmt.Sprintf("note what %s lists", id), err)
}

// RecordForeign records that an engine lists a name that it was not asked to load, unless something is recorded by now.
func (r *Registry) RecordForeign(ctx context.Context, id rollout.EngineID, name, path string) error {
	b, err := json.Marshal(LoadRecord{Path: path, At: r.now().UTC(), Foreign: true})
	if err == nil {
		err = r.rdb.HSetNX(ctx, r.loadsKey(id), name, b).Err()
	}
	return redisError(fmt.Sprintf("note that %s has somebody else's %s", id, name), err)
}

// DoubtLoads says that Redis has lost something of the fleet: the records of all engines are compared again with what
// they list.
func (r *Registry) DoubtLoads(ctx context.Context) error {
	keys := []string{r.historyKey(), r.comparedKey()}
	err := doubtScript.Run(ctx, r.rdb, keys, r.now().UnixMilli()).Err()
	return redisError("note that the fleet's Redis has gone back", err)
}

// History is the history of the Redis that holds the fleet: another one after each restart and promotion; empty where
// Redis does not tell.
func (r *Registry) History(ctx context.Context) (string, error) {
	id, err := historyScript.Run(ctx, r.rdb, []string{r.historyKey()}, r.now().UnixMilli()).Text()
	return id, redisError("read the history of the fleet's Redis", err)
}

func (r *Registry) historyKey() string  { return r.prefix + "history" }
func (r *Registry) comparedKey() string { return r.prefix + "compared" }
