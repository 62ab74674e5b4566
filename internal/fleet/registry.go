package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engineurl"
	"github.com/millrace/millrace/internal/rollout"
)

// DefaultMaxInFlight is an engine's limit where its operator names none: what vLLM runs at once by default.
const DefaultMaxInFlight = 256

// retiredFor is how long a retired adapter is remembered, so that an engine that was away unloads it too.
const retiredFor = 24 * time.Hour

// Registry is the fleet's state in Redis. All its keys share one hash tag, so it works on a cluster.
type Registry struct {
	rdb    redis.UniversalClient
	prefix string
	now    func() time.Time

	// MaxEngines bounds the fleet: Add refuses more. What a list of engines names is not counted out. 0 is no bound.
	MaxEngines int
	// Addresses are where engines may be: Add refuses others.
	Addresses engineurl.Rules
}

// NewRegistry keeps the fleet under prefix.
func NewRegistry(rdb redis.UniversalClient, prefix string, now func() time.Time) *Registry {
	return &Registry{rdb: rdb, prefix: prefix + ":{fleet}:", now: now}
}

// Member is one engine as its operator wants it.
type Member struct {
	ID          rollout.EngineID `json:"id"`
	URL         string           `json:"url"`
	MaxInFlight int              `json:"max_in_flight"`
	Drain       bool             `json:"drain,omitempty"`  // finish what runs, take nothing new
	Now         bool             `json:"now,omitempty"`    // do not wait for what runs: dispatch it elsewhere
	Leave       bool             `json:"leave,omitempty"`  // out of the fleet, when drained
	Source      string           `json:"source,omitempty"` // list that named it; empty: an operator did
	AddedAt     time.Time        `json:"added_at"`
}

// Observation is one engine as it was last seen.
type Observation struct {
	State    rollout.EngineState `json:"state"`
	Reason   string              `json:"reason,omitempty"`
	Since    time.Time           `json:"since"` // of the state
	Models   []string            `json:"models,omitempty"`
	Adapters []string            `json:"adapters,omitempty"`
	Version  string              `json:"version,omitempty"`
	Load     rollout.EngineLoad  `json:"load"`

	AdapterSlots int               `json:"adapter_slots,omitempty"`
	Slow         string            `json:"slow,omitempty"`
	Troubles     map[string]string `json:"troubles,omitempty"` // of adapters, by name
}

// Engine joins what is wanted and what was seen.
func (m Member) Engine(o Observation) rollout.Engine {
	if o.State == "" {
		o.State, o.Since = rollout.EngineJoining, m.AddedAt
	}
	if m.Drain && o.State == rollout.EngineReady {
		// The wish counts at once: nothing new may be sent while the Keeper has yet to notice.
		o.State, o.Reason = rollout.EngineDraining, ""
	}
	if m.Drain && o.Reason == "" {
		o.Reason = m.parting()
	}
	return rollout.Engine{
		ID: m.ID, URL: m.URL, Source: m.Source, MaxInFlight: m.MaxInFlight, Slow: o.Slow,
		State: o.State, Reason: o.Reason, Since: o.Since, AdapterSlots: o.AdapterSlots,
		Recalled: m.Drain && m.Now || o.State == rollout.EngineQuarantined,
		Models:   o.Models, Adapters: o.Adapters, Troubles: o.Troubles, Version: o.Version, Load: o.Load,
	}
}

// parting says how a draining engine goes.
func (m Member) parting() string {
	switch {
	case m.Leave && m.Now:
		return "leaves the fleet; its requests are dispatched elsewhere"
	case m.Leave:
		return "leaves the fleet when it has finished"
	case m.Now:
		return "its requests are dispatched elsewhere"
	}
	return "finishes what it has"
}

// engineIDPattern keeps ids usable in URLs, metric labels and Redis keys.
var engineIDPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._:-]{0,98}[A-Za-z0-9])?$`)

// NewMember checks what an operator asked for and fills in what was left out: the id is then the
// host and port, the limit DefaultMaxInFlight.
func NewMember(e rollout.Engine, at time.Time) (Member, error) {
	address, err := normalURL(e.URL)
	if err != nil {
		return Member{}, err
	}
	m := Member{ID: e.ID, URL: address.String(), MaxInFlight: e.MaxInFlight, AddedAt: at.UTC()}
	if m.ID == "" {
		m.ID = rollout.EngineID(strings.Trim(strings.NewReplacer("[", "", "]", "").Replace(address.Host), ":"))
	}
	if !engineIDPattern.MatchString(string(m.ID)) {
		return Member{}, rollout.Refuse(rollout.Invalid,
			"engine id %q: use up to 100 of letters, digits, '.', '_', ':' and '-', starting and ending with a letter or digit", string(m.ID))
	}
	switch {
	case m.MaxInFlight < 0:
		return Member{}, rollout.Refuse(rollout.Invalid, "engine %s: max_in_flight is %d; use 1 or more, or 0 for %d",
			m.ID, m.MaxInFlight, DefaultMaxInFlight)
	case m.MaxInFlight == 0:
		m.MaxInFlight = DefaultMaxInFlight
	}
	return m, nil
}

func normalURL(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil, rollout.Refuse(rollout.Invalid, "engine address %q: want http://host:port, as in http://10.0.0.5:8000", text)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, rollout.Refuse(rollout.Invalid, "engine address %q: only scheme, host, port and path belong into it", u.Redacted())
	}
	u.Host = strings.ToLower(u.Host)
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")
	return u, nil
}

// List is every engine, by id.
func (r *Registry) List(ctx context.Context) ([]rollout.Engine, error) {
	engines, _, err := r.Watch().Engines(ctx)
	return engines, err
}

// Get is one engine, or a refusal.
func (r *Registry) Get(ctx context.Context, id rollout.EngineID) (rollout.Engine, error) {
	m, o, err := r.read(ctx, id)
	if err != nil {
		return rollout.Engine{}, err
	}
	return m.Engine(o), nil
}

// Members is every engine as wanted, by id.
func (r *Registry) Members(ctx context.Context) ([]Member, error) {
	values, err := r.rdb.HGetAll(ctx, r.membersKey()).Result()
	if err != nil {
		return nil, trouble("read members", err)
	}
	members := make([]Member, 0, len(values))
	for id, value := range values {
		var m Member
		if err := json.Unmarshal([]byte(value), &m); err != nil {
			return nil, fmt.Errorf("member %s: %w", id, err)
		}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return members, nil
}

// Add makes an engine a member; it gets requests once the Keeper has found it ready. The
// same id and address again changes nothing but the limit, if one is given, and ends a drain. The same id
// at another address, or a second id for one address, is refused.
func (r *Registry) Add(ctx context.Context, e rollout.Engine) (rollout.Engine, error) {
	m, err := r.add(ctx, e, "")
	if err != nil {
		return rollout.Engine{}, fmt.Errorf("add engine: %w", err)
	}
	return r.Get(ctx, m.ID)
}

// add makes an engine a member on behalf of a source, or of an operator.
func (r *Registry) add(ctx context.Context, e rollout.Engine, source string) (Member, error) {
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
	if err := r.part(ctx, id, func(m *Member) { m.Drain, m.Now = true, m.Now || now }); err != nil {
		return fmt.Errorf("drain engine: %w", err)
	}
	return nil
}

// Remove drains an engine and takes it out of the fleet when it has finished and unloaded its adapters; with now, or
// when it is lost, as soon as what it has is dispatched elsewhere. Until then it is listed as draining.
func (r *Registry) Remove(ctx context.Context, id rollout.EngineID, now bool) error {
	if err := r.part(ctx, id, func(m *Member) { m.Drain, m.Leave, m.Now = true, true, m.Now || now }); err != nil {
		return fmt.Errorf("remove engine: %w", err)
	}
	return nil
}

func (r *Registry) part(ctx context.Context, id rollout.EngineID, change func(*Member)) error {
	return r.change(ctx, id, func(m *Member) error {
		change(m)
		return nil
	})
}

// forget takes an engine out of the fleet.
func (r *Registry) forget(ctx context.Context, id rollout.EngineID) error {
	_, err := r.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.HDel(ctx, r.membersKey(), string(id))
		tx.HDel(ctx, r.observedKey(), string(id))
		tx.HDel(ctx, r.usageKey(), usageFields(id)...)
		tx.ZRem(ctx, r.changesKey(), string(id))
		tx.ZIncrBy(ctx, r.changesKey(), 1, departures)
		tx.Del(ctx, r.holdingsKey(id))
		return nil
	})
	if err != nil {
		return fmt.Errorf("forget engine %s: %w", id, err)
	}
	return nil
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
		return Member{}, Observation{}, trouble("read engine "+string(id), err)
	}
	if errors.Is(wanted.Err(), redis.Nil) {
		return Member{}, Observation{}, noSuchEngine(id)
	}
	var m Member
	if err := json.Unmarshal([]byte(wanted.Val()), &m); err != nil {
		return Member{}, Observation{}, fmt.Errorf("member %s: %w", id, err)
	}
	var value any
	if seen.Err() == nil {
		value = seen.Val()
	}
	o, err := decodeObservation(value)
	if err != nil {
		return Member{}, Observation{}, fmt.Errorf("engine %s: %w", id, err)
	}
	return m, o, nil
}

// observeScript stores what was seen of an engine only while it is a member.
var observeScript = redis.NewScript(`
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
` + noteChange + `
return 1`)

// Observe stores what was seen of an engine; of one that was removed meanwhile, nothing.
func (r *Registry) Observe(ctx context.Context, id rollout.EngineID, o Observation) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	keys := []string{r.membersKey(), r.observedKey(), r.changesKey()}
	if err := observeScript.Run(ctx, r.rdb, keys, string(id), b).Err(); err != nil {
		return fmt.Errorf("store observation of %s: %w", id, err)
	}
	return nil
}

func decodeObservation(value any) (Observation, error) {
	text, ok := value.(string)
	if !ok {
		return Observation{}, nil
	}
	var o Observation
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return Observation{}, fmt.Errorf("observation: %w", err)
	}
	return o, nil
}

func (r *Registry) membersKey() string  { return r.prefix + "members" }
func (r *Registry) observedKey() string { return r.prefix + "observed" }
func (r *Registry) changesKey() string  { return r.prefix + "changes" }
func (r *Registry) wantedKey() string   { return r.prefix + "adapters" }
func (r *Registry) retiredKey() string  { return r.prefix + "retired" }
func (r *Registry) workersKey() string  { return r.prefix + "workers" }
func (r *Registry) namingKey() string   { return r.prefix + "workers:naming" } // those whose workflow ids carry the deployment's name
func (r *Registry) queuesKey() string   { return r.prefix + "queues" }
func (r *Registry) usageKey() string    { return r.prefix + "usage" }
