package buffer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
)

// FuzzDamage: whatever one field of a run in Redis holds, a call is an error, or answers what JSON can say; nothing
// breaks and nothing waits.
func FuzzDamage(f *testing.F) {
	rdb := embedded(f)
	sound := played(f, rdb)
	for at, field := range sound.fields {
		f.Add(at, []byte(field.value))
		if testing.Short() {
			continue // one call after another
		}
		for _, value := range []string{"", "-1", "9223372036854775807", "1e300", "nan", "[]", "null", "{", "\xff\xfe"} {
			f.Add(at, []byte(value))
		}
	}
	f.Fuzz(func(t *testing.T, at int, value []byte) {
		if at < 0 || at >= len(sound.fields) {
			t.Skip("no such field")
		}
		ctx := t.Context()
		sound.put(ctx, t, rdb)
		field := sound.fields[at]
		switch {
		case sound.lists[field.key] != nil:
			at, _ := strconv.ParseInt(field.name, 10, 64) // ours
			rdb.LSet(ctx, field.key, at, value)
		case field.name == "":
			rdb.Set(ctx, field.key, value, 0)
		default:
			rdb.HSet(ctx, field.key, field.name, value)
		}
		store := buffer.New(rdb, buffer.Options{})
		for name, call := range calls(ctx, store) {
			got, err := call()
			if err != nil {
				continue
			}
			if _, err := json.Marshal(got); err != nil {
				t.Errorf("%s %s = %q: %s: %v", field.key, field.name, value, name, err)
			}
		}
	})
}

// calls are those of workers, trainers and operators, in any order.
func calls(ctx context.Context, s *buffer.Store) map[string]func() (any, error) {
	episode := rollout.EpisodeRef{GroupRef: ref(2)}
	return map[string]func() (any, error){
		"runs":       func() (any, error) { return s.Runs(ctx) },
		"status":     func() (any, error) { return s.Status(ctx, run) },
		"account":    func() (any, error) { return s.Account(ctx, run) },
		"progress":   func() (any, error) { return s.Progress(ctx, run) },
		"steps":      func() (any, error) { return s.Steps(ctx, run, 0, 0) },
		"step":       func() (any, error) { return s.Step(ctx, run, 0) },
		"checkpoint": func() (any, error) { cp, _, err := s.LoadCheckpoint(ctx, episode); return cp, err },
		"journal": func() (any, error) {
			j, err := s.OpenJournal(ctx, episode, 2)
			if err != nil {
				return nil, err
			}
			return []any{j.Checkpoint(), j.Answers()}, nil
		},
		"episodes": func() (any, error) { return s.Episodes(ctx, ref(2), 2) },
		"game":     func() (any, error) { return s.Game(ctx, episode) },
		"claim":    func() (any, error) { return s.Claim(ctx, run, 0, 1, buffer.Share{Rank: 1, World: 2}) },
		"compact": func() (any, error) {
			raw, err := s.ClaimRaw(ctx, run, 0, 1, buffer.Share{})
			if err != nil {
				return nil, err
			}
			return nil, raw.WriteCompact(new(bytes.Buffer))
		},
		"next claim": func() (any, error) { return s.Claim(ctx, run, 1, 1, buffer.Share{}) },
		"version":    func() (any, error) { return nil, s.SetVersion(ctx, run, 3, 0) },
		"complete": func() (any, error) {
			record, _, err := s.Complete(ctx, run, 0, 1, report(0), steprecord.FleetView{})
			return record, err
		},
		"commit": func() (any, error) { return s.CommitGroup(ctx, group(2, 0)) },
		"attach": func() (any, error) { generation, _, err := s.Attach(ctx, run, nil); return generation, err },
	}
}

// image is a run as Redis holds it, to be put back again and again.
type image struct {
	keys   map[string]map[string]string // hashes
	sets   map[string][]redis.Z
	lists  map[string][]string
	texts  map[string]string
	fields []field // of the hashes, in a fixed order; without the counters, which the scripts alone write and read
}

type field struct{ key, name, value string }

// played is a run with a step claimed, a group ready and a group with a game in progress.
func played(f *testing.F, rdb redis.UniversalClient) *image {
	f.Helper()
	x := open(f, rdb, spec(2, 10))
	x.ok(x.SaveStatus(x.ctx, runstatus.RunStatus{Spec: spec(2, 10), State: runstatus.RunRunning}, 0))
	_, _, err := x.Attach(x.ctx, run, nil)
	x.ok(err)
	x.ready(0, 0, 1, 3)
	x.claim(0, 1)
	x.queue(2, 2)
	x.ok(x.Start(x.ctx, ref(2)))
	episode := rollout.EpisodeRef{GroupRef: ref(2)}
	of := playJournal(f, x, episode, 1)
	x.ok(of.phase())
	x.ok(of.answer("FRANCE"))
	of.journal.Close()
	ofAnother := playJournal(f, x, rollout.EpisodeRef{GroupRef: ref(2), Sample: 1}, 1)
	x.ok(ofAnother.phase())
	x.ok(ofAnother.end())
	i := &image{keys: map[string]map[string]string{}, sets: map[string][]redis.Z{}, lists: map[string][]string{},
		texts: map[string]string{}}
	for _, key := range rdb.Keys(x.ctx, "*").Val() {
		switch rdb.Type(x.ctx, key).Val() {
		case "hash":
			i.keys[key] = rdb.HGetAll(x.ctx, key).Val()
			for name, value := range i.keys[key] {
				if _, err := strconv.Atoi(value); err != nil {
					i.fields = append(i.fields, field{key, name, value})
				}
			}
		case "zset":
			i.sets[key] = rdb.ZRangeWithScores(x.ctx, key, 0, -1).Val()
		case "list":
			i.lists[key] = rdb.LRange(x.ctx, key, 0, -1).Val()
			for at, value := range i.lists[key] {
				i.fields = append(i.fields, field{key, strconv.Itoa(at), value})
			}
		case "string":
			i.texts[key] = rdb.Get(x.ctx, key).Val()
			i.fields = append(i.fields, field{key, "", i.texts[key]})
		}
	}
	slices.SortFunc(i.fields, func(a, b field) int {
		return bytes.Compare([]byte(a.key+" "+a.name), []byte(b.key+" "+b.name))
	})
	if len(i.fields) < 20 {
		f.Fatalf("only %d fields to damage: %v", len(i.fields), i.fields)
	}
	return i
}

// put makes Redis hold the image and nothing else.
func (i *image) put(ctx context.Context, t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	_, err := rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.FlushAll(ctx)
		tx.SAdd(ctx, "millrace:runs", string(run))
		for key, hash := range i.keys {
			tx.HSet(ctx, key, hash)
		}
		for key, members := range i.sets {
			tx.ZAdd(ctx, key, members...)
		}
		for key, records := range i.lists {
			tx.RPush(ctx, key, records)
		}
		for key, text := range i.texts {
			tx.Set(ctx, key, text, 0)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
