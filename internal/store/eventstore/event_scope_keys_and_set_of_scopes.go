package store

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// Replayed is the scope of dead letters that are to be shipped again. No run can have its name. It lies beside the
// fleet's, so that one script takes a letter from there to here.
const Replayed rollout.RunName = "/replay"

// Keys is where the keys of a scope begin, with its hash tag: all its streams are written by one script.
type Keys string

// KeysOf is the keys of a run's events, or the fleet's, where events are kept under a prefix.
func KeysOf(prefix string, scope rollout.RunName) Keys {
	switch scope {
	case "":
		return Keys(prefix + ":{fleet}:")
	case Replayed:
		return Keys(prefix + ":{fleet}:replay:")
	}
	return Keys(prefix + ":{" + string(scope) + "}:")
}

// Of is a key by its name; append.lua says which there are.
func (k Keys) Of(name string) string { return string(k) + name }

// Recent, Kinds and Facts are the keys of the latest events, of the kinds of facts, and of the facts of a kind.
func (k Keys) Recent() string           { return k.Of("events") }
func (k Keys) Kinds() string            { return k.Of("kinds") }
func (k Keys) Facts(kind string) string { return k.Of("facts:" + kind) }

// ScopesKey is the set of the scopes that are noted: whoever delivers events, or lets go of them, looks there.
func ScopesKey(prefix string) string { return prefix + ":event-scopes" }

// NoteScope notes that there may be events in the scope of a run, where events are kept under a prefix.
func NoteScope(ctx context.Context, rdb redis.UniversalClient, prefix string, run rollout.RunName) error {
	if run == "" {
		return nil
	}
	if err := rdb.SAdd(ctx, ScopesKey(prefix), string(run)).Err(); err != nil {
		return fmt.Errorf("note a scope of events: %w", err)
	}
	return nil
}

// Delete gives the events of a deleted run up: they go when the sink has got them and a server trims.
func (s *Store) Delete(ctx context.Context, run rollout.RunName) error {
	return NoteScope(ctx, s.rdb, s.prefix, run)
}
