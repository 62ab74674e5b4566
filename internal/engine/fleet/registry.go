package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engine/address"
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/redisscript"
)

// retiredFor is how long a retired adapter is remembered, so that an engine that was unavailable unloads it too.
const retiredFor = 24 * time.Hour

// Registry is the fleet's state in Redis. All its keys share one hash tag, so it works on a cluster.
type Registry struct {
	rdb     redis.UniversalClient
	prefix  string
	now     func() time.Time
	workers *workerregistry.Registry
	history lastHistory // of Redis, that this process has seen

	most atomic.Int64 // engines; see LimitEngines
	// Addresses are where engines may be: Add refuses others.
	Addresses address.Rules
}

// NewRegistry keeps the fleet under prefix.
func NewRegistry(rdb redis.UniversalClient, prefix string, now func() time.Time) *Registry {
	return &Registry{rdb: rdb, prefix: prefix + ":{fleet}:", now: now, workers: workerregistry.New(rdb, prefix, now)}
}

// LimitEngines bounds the fleet from now on: Add refuses more. AddListed refuses none. 0 is no bound.
func (r *Registry) LimitEngines(most int) { r.most.Store(int64(most)) }

// List is every engine, by id.
func (r *Registry) List(ctx context.Context) ([]enginestate.Engine, error) {
	engines, _, err := r.Watch().Engines(ctx)
	return engines, err
}

// Get is one engine, or a refusal.
func (r *Registry) Get(ctx context.Context, id rollout.EngineID) (enginestate.Engine, error) {
	m, o, err := r.read(ctx, id)
	if err != nil {
		return enginestate.Engine{}, err
	}
	return m.Engine(o), nil
}

// Members is every engine as wanted, by id.
func (r *Registry) Members(ctx context.Context) ([]Member, error) {
	values, err := r.rdb.HGetAll(ctx, r.membersKey()).Result()
	if err != nil {
		return nil, redisError("read members", err)
	}
	members := make([]Member, 0, len(values))
	for id, value := range values {
		m, err := decode[Member]("member "+id, value)
		if err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return members, nil
}

// Add makes an engine a member; it gets requests once the Keeper has found it ready. The
// same id and address again changes nothing but the limit, if one is given, and ends a drain. The same id
// at another address, or a second id for one address, is refused.
func (r *Registry) Add(ctx context.Context, e enginestate.Engine) (enginestate.Engine, error) {
	m, err := r.add(ctx, e, "")
	if err != nil {
		return enginestate.Engine{}, fmt.Errorf("add engine: %w", err)
	}
	return r.Get(ctx, m.ID)
}

// AddListed is Add on behalf of a source, a list of engines outside Millrace.
func (r *Registry) AddListed(ctx context.Context, e enginestate.Engine, source string) error {
	_, err := r.add(ctx, e, source)
	return err
}

// add makes an engine a member on behalf of a source, or of an operator.
func (r *Registry) add(ctx context.Context, e enginestate.Engine, source string) (Member, error) {
	m, err := NewMember(e, r.now())
	if err != nil {
		return Member{}, err
	}
	if err := r.Addresses.Check(m.URL); err != nil {
		return Member{}, err
	}
	m.Source = source
	return r.join(ctx, m, e.MaxInFlight != 0)
}

// Drain asks that an engine is given nothing new and finishes what it has, or with now, that this is dispatched
// elsewhere at once. Add ends it.
func (r *Registry) Drain(ctx context.Context, id rollout.EngineID, now bool) error {
	err := r.updateMember(ctx, id, func(m *Member) error {
		m.Drain, m.Now = true, m.Now || now
		return nil
	})
	if err != nil {
		return fmt.Errorf("drain engine: %w", err)
	}
	return nil
}

// Remove drains an engine and takes it out of the fleet when it has finished and unloaded its adapters; with now, or
// when it is lost, as soon as what it has is dispatched elsewhere. Until then it is listed as draining.
func (r *Registry) Remove(ctx context.Context, id rollout.EngineID, now bool) error {
	bought := false
	err := r.updateMember(ctx, id, func(m *Member) error {
		m.Drain, m.Leave, m.Now = true, true, m.Now || now
		bought = m.Source == SourceScaling
		return nil
	})
	if err == nil && bought {
		err = r.noteRemoved(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("remove engine: %w", err)
	}
	return nil
}

// forget takes an engine out of the fleet.
func (r *Registry) forget(ctx context.Context, id rollout.EngineID) error {
	_, err := r.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.HDel(ctx, r.membersKey(), string(id))
		tx.HDel(ctx, r.observedKey(), string(id))
		r.workers.ForgetEngine(ctx, tx, id)
		tx.ZRem(ctx, r.changesKey(), string(id))
		tx.ZIncrBy(ctx, r.changesKey(), 1, departures)
		tx.Del(ctx, r.loadsKey(id))
		tx.HDel(ctx, r.comparedKey(), string(id))
		return nil
	})
	return redisError("forget engine "+string(id), err)
}

func noSuchEngine(id rollout.EngineID) error {
	return rollout.Refuse(rollout.NoSuchEngine, "no engine %q in the fleet; `millrace engine list` shows them", string(id))
}

// read is one engine as wanted and as seen.
func (r *Registry) read(ctx context.Context, id rollout.EngineID) (Member, Observation, error) {
	var wanted, seen *redis.StringCmd
	_, err := r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		wanted = p.HGet(ctx, r.membersKey(), string(id))
		seen = p.HGet(ctx, r.observedKey(), string(id))
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return Member{}, Observation{}, redisError("read engine "+string(id), err)
	}
	if errors.Is(wanted.Err(), redis.Nil) {
		return Member{}, Observation{}, noSuchEngine(id)
	}
	m, err := decode[Member]("member "+string(id), wanted.Val())
	if err != nil {
		return Member{}, Observation{}, err
	}
	o, err := decodeObservation(string(id), seen.Val())
	return m, o, err
}

// observeScript stores an engine's observation only while it is a member, and writes its facts in the same instant,
// once. KEYS: members, observations, changes. ARGV: id, observation, the facts.
var observeScript = redisscript.New(`
local base = string.sub(KEYS[1], 1, -8)
` + store.Lua() + `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
for i = 3, #ARGV do tell_once(ARGV[i]) end
` + noteChange + `
return 1`)

// Observe stores an engine's observation together with its facts, so that a state and its event cannot part. For an
// engine that was removed meanwhile it stores nothing.
func (r *Registry) Observe(ctx context.Context, id rollout.EngineID, o Observation, facts ...telemetry.Event) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	args := []any{string(id), b}
	for _, e := range facts {
		fact, err := telemetry.Encode(e)
		if err != nil {
			return fmt.Errorf("store observation of %s: %w", id, err)
		}
		args = append(args, fact)
	}
	keys := []string{r.membersKey(), r.observedKey(), r.changesKey()}
	return redisError("store observation of "+string(id), observeScript.Run(ctx, r.rdb, keys, args...).Err())
}

// decodeObservation reads what was seen of an engine; empty: nothing yet.
func decodeObservation(id, text string) (Observation, error) {
	if text == "" {
		return Observation{}, nil
	}
	return decode[Observation]("observation of engine "+id, text)
}

// decode reads what the registry keeps as JSON.
func decode[T any](what, text string) (v T, err error) {
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return v, fmt.Errorf("%s: %w", what, err)
	}
	return v, nil
}

func (r *Registry) membersKey() string  { return r.prefix + "members" }
func (r *Registry) observedKey() string { return r.prefix + "observed" }
func (r *Registry) changesKey() string  { return r.prefix + "changes" }
func (r *Registry) wantedKey() string   { return r.prefix + "adapters" }
func (r *Registry) retiredKey() string  { return r.prefix + "retired" }

// Loaded notes that an engine was found to serve an adapter, so that requests for it need not wait
// for the Keeper's next look. An engine that is no member is no error.
func (r *Registry) Loaded(ctx context.Context, id rollout.EngineID, name string) error {
	err := r.replace(ctx, r.observedKey(), id, func(old string) (any, error) {
		o, err := decodeObservation(string(id), old)
		if err != nil || slices.Contains(o.Adapters, name) {
			return nil, err
		}
		o.Adapters = append(o.Adapters, name)
		slices.Sort(o.Adapters)
		return o, nil
	})
	if err != nil && !rollout.Refused(err, rollout.NoSuchEngine) {
		return fmt.Errorf("note adapter %s on %s: %w", name, id, err)
	}
	return nil
}
