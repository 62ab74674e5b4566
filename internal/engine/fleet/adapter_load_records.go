package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// LoadRecord is a load that this deployment asked of an engine, by the adapter's name. It is written before the engine
// is asked, and deleted when the engine is known not to have the adapter. So an engine has at most the recorded
// adapters of ours.
type LoadRecord struct {
	Path   string    `json:"path"`
	Digest string    `json:"digest,omitempty"`
	At     time.Time `json:"at"`
	// Reload says that the engine listed the name when Redis had gone back, and that the record of its load may be
	// what was lost: it is to load the adapter again before it is believed.
	Reload bool `json:"reload,omitempty"`
	// Foreign: the engine listed the name without having been asked for it. The adapter belongs to somebody else, also
	// when Redis goes back later.
	Foreign bool `json:"foreign,omitempty"`
	// Proof is what the engine's answers to the adapter's probes said since; nil: it has not been asked.
	Proof *enginestate.AdapterProof `json:"proof,omitempty"`
}

// isOf reports whether the record is of this adapter's weights. Where a digest is not known the path decides.
func (l LoadRecord) isOf(a Adapter) bool {
	same := l.Digest == a.Digest || l.Digest == "" || a.Digest == ""
	return !l.Reload && !l.Foreign && samePath(l.Path, a.Path) && same
}

// proven reports whether the engine has proven since the load that it serves these weights, or there are no probes.
func (l LoadRecord) proven() bool { return l.Proof != nil && l.Proof.Serves() }

// proof is what is known of an adapter that an engine was asked for.
func (l LoadRecord) proof() enginestate.AdapterProof {
	if l.Proof == nil {
		return enginestate.AdapterProof{Verdict: enginestate.Unproven}
	}
	return *l.Proof
}

func (r *Registry) loadsKey(id rollout.EngineID) string { return r.prefix + "held:" + string(id) }

// RecordLoad records that an engine is about to be asked to load an adapter, which proves nothing yet.
func (r *Registry) RecordLoad(ctx context.Context, id rollout.EngineID, a Adapter) error {
	return r.recordLoad(ctx, id, a, nil)
}

// RecordProof records what an engine has proven of an adapter that it has loaded.
func (r *Registry) RecordProof(ctx context.Context, id rollout.EngineID, a Adapter, p enginestate.AdapterProof) error {
	return r.recordLoad(ctx, id, a, &p)
}

func (r *Registry) recordLoad(ctx context.Context, id rollout.EngineID, a Adapter, p *enginestate.AdapterProof) error {
	b, err := json.Marshal(LoadRecord{Path: a.Path, Digest: a.Digest, At: r.now().UTC(), Proof: p})
	if err == nil {
		err = r.rdb.HSet(ctx, r.loadsKey(id), a.Name, b).Err()
	}
	return redisError(fmt.Sprintf("note that %s is to load %s", id, a.Name), err)
}

// ForgetLoads forgets the loads of what an engine does not have any more. What it never had is no error.
func (r *Registry) ForgetLoads(ctx context.Context, id rollout.EngineID, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	err := r.rdb.HDel(ctx, r.loadsKey(id), names...).Err()
	return redisError(fmt.Sprintf("note that %s has unloaded %s", id, names[0]), err)
}

// LoadRecords lists the loads that an engine was asked for, by name.
func (r *Registry) LoadRecords(ctx context.Context, id rollout.EngineID) (map[string]LoadRecord, error) {
	values, err := r.rdb.HGetAll(ctx, r.loadsKey(id)).Result()
	if err != nil {
		return nil, fmt.Errorf("read what %s was asked to load: %w", id, err)
	}
	return decodeLoadRecords(id, values)
}

func decodeLoadRecords(id rollout.EngineID, values map[string]string) (map[string]LoadRecord, error) {
	records := map[string]LoadRecord{}
	for name, text := range values {
		record, err := decode[LoadRecord]("load record "+name+" of "+string(id), text)
		if err != nil {
			return nil, err
		}
		records[name] = record
	}
	return records, nil
}

// AskedToLoad lists the members that are known to have been asked to load a name, with the load.
func (r *Registry) AskedToLoad(ctx context.Context, name string) (map[rollout.EngineID]LoadRecord, error) {
	members, err := r.Members(ctx)
	if err != nil {
		return nil, err
	}
	asked := make([]*redis.StringCmd, len(members))
	_, err = r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, m := range members {
			asked[i] = p.HGet(ctx, r.loadsKey(m.ID), name)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("read who was asked to load %s: %w", name, err)
	}
	loads := map[rollout.EngineID]LoadRecord{}
	for i, answer := range asked {
		text, err := answer.Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return nil, redisError("read who was asked to load "+name, err)
		}
		record, err := decode[LoadRecord]("load record "+name+" of "+string(members[i].ID), text)
		if err != nil {
			return nil, err
		}
		if !record.Reload && !record.Foreign {
			loads[members[i].ID] = record
		}
	}
	return loads, nil
}
