package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/redisscript"
)

// A scope is open while it may need work: events that the sink lacks, or more events than readers need. Open are the
// scopes of active runs, of ended runs that are not wound up, of deleted runs that still hold something, and those that
// a writer of events has noted. Trim finds out which scopes are done. Only open ones are checked regularly, however
// many scopes there are.
//
// A script that changes a run writes its facts, too, but cannot note the scope, because the note may be on another
// node. So each Trim also checks some of the done scopes for new events.

const (
	// scopeForgotten is when unshipped events of a deleted run are dropped all the same, and counted as lost.
	scopeForgotten = 30 * 24 * time.Hour
	// unknownScope is how long a scope is left alone that no run has: one may be about to begin.
	unknownScope = 24 * time.Hour
	// lookAgainAt is how many scopes that are done are looked at again at each Trim.
	lookAgainAt = 16
)

// openScopes is the fleet and all scopes that are open, by name.
func (s *Sink) openScopes(ctx context.Context) ([]rollout.RunName, error) {
	all := []rollout.RunName{"", store.Replayed}
	for _, list := range []func(context.Context) ([]rollout.RunName, error){
		s.runs.Active, s.runs.Winding, s.runs.Deleting, s.notedScopes,
	} {
		names, err := list(ctx)
		if err != nil {
			return nil, fmt.Errorf("list scopes of events: %w", err)
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func (s *Sink) notedScopes(ctx context.Context) ([]rollout.RunName, error) {
	names, err := s.redis.SMembers(ctx, store.ScopesKey(s.prefix)).Result()
	if err != nil {
		return nil, fmt.Errorf("list scopes of events: %w", err)
	}
	runs := make([]rollout.RunName, len(names))
	for i, name := range names {
		runs[i] = rollout.RunName(name)
	}
	return runs, nil
}

func (s *Sink) noteScope(ctx context.Context, run rollout.RunName) error {
	return store.NoteScope(ctx, s.redis, s.prefix, run)
}

// openAll notes the scopes of all runs: there is a sink that may not have got everything.
func (s *Sink) openAll(ctx context.Context) error {
	runs, err := s.runs.All(ctx)
	if err != nil {
		return err
	}
	for portion := range slices.Chunk(runs, 1000) {
		names := make([]any, len(portion))
		for i, run := range portion {
			names[i] = string(run)
		}
		if err := s.redis.SAdd(ctx, store.ScopesKey(s.prefix), names...).Err(); err != nil {
			return err
		}
	}
	return nil
}

// closeAndErase finds the noted scopes that are done: those of ended, wound-up runs whose events the sink has, if there
// is a sink. Scopes of deleted runs are erased.
func (s *Sink) closeAndErase(ctx context.Context) error {
	noted, err := s.notedScopes(ctx)
	if err != nil || len(noted) == 0 {
		return err
	}
	awaited, err := s.isAwaited(ctx)
	if err != nil {
		return err
	}
	busy := map[rollout.RunName]bool{}
	for _, list := range []func(context.Context) ([]rollout.RunName, error){s.runs.Active, s.runs.Winding} {
		names, err := list(ctx)
		if err != nil {
			return err
		}
		for _, name := range names {
			busy[name] = true
		}
	}
	for _, run := range noted {
		if busy[run] {
			continue
		}
		if err := s.closeOrEraseScope(ctx, run, awaited); err != nil {
			return fmt.Errorf("events of %q: %w", run, err)
		}
	}
	if now, err := s.isAwaited(ctx); err != nil || awaited || !now {
		return err
	}
	return s.openAll(ctx) // a sink came meanwhile, and may have opened them before
}

func (s *Sink) closeOrEraseScope(ctx context.Context, run rollout.RunName, awaited bool) error {
	known, err := s.runs.Has(ctx, run)
	if err != nil {
		return err
	}
	in, err := s.progressIn(ctx, run)
	if err != nil {
		return err
	}
	awaited = awaited && !in[0].isShipped()
	switch {
	case known && awaited:
		return nil
	case known:
		return s.closeScope(ctx, run, in[0])
	}
	now, err := s.now(ctx)
	if err != nil {
		return err
	}
	gone, err := s.redis.Exists(ctx, s.keys(run).Of("gone")).Result()
	if err != nil {
		return err
	}
	age := now.Sub(store.Record{ID: in[0].last}.WrittenAt())
	mayBegin := in[0].last != "" && gone == 0 && age < unknownScope
	if mayBegin || awaited && age < scopeForgotten {
		return nil
	}
	return s.eraseScope(ctx, run, in[0])
}

// closeScope removes a run's scope from the notes. It notes the scope again if an event was written meanwhile.
func (s *Sink) closeScope(ctx context.Context, run rollout.RunName, p progress) error {
	if err := s.count(ctx, run, p); err != nil {
		return err
	}
	if err := s.redis.SRem(ctx, store.ScopesKey(s.prefix), string(run)).Err(); err != nil {
		return err
	}
	now, err := s.progressIn(ctx, run)
	if err != nil || now[0].last != p.last {
		return errors.Join(err, s.noteScope(ctx, run))
	}
	return nil
}

// reopen notes those of some runs that are done in which something was written since. Each call looks at others.
func (s *Sink) reopen(ctx context.Context) error {
	runs, err := s.runs.Some(ctx, lookAgainAt)
	if err != nil || len(runs) == 0 {
		return err
	}
	names := make([]string, len(runs))
	for i, run := range runs {
		names[i] = string(run)
	}
	notes, err := s.redis.HMGet(ctx, s.countedKey(), names...).Result()
	if err != nil {
		return err
	}
	last := make([]*redis.StringCmd, len(runs))
	_, err = s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, run := range runs {
			last[i] = p.HGet(ctx, s.keys(run).Of("written"), "last")
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for i, run := range runs {
		note, _ := notes[i].(string)
		if before := strings.Fields(note); last[i].Val() != "" && (len(before) < 2 || before[1] != last[i].Val()) {
			if err := s.noteScope(ctx, run); err != nil {
				return err
			}
		}
	}
	return nil
}

// eraseScript removes a scope's events if none was written since the caller looked. KEYS: written, then the keys to
// delete. ARGV: the id of the last event then, or ”. Answers whether they are gone.
var eraseScript = redisscript.New(`
local last = redis.call('HGET', KEYS[1], 'last')
if last and last ~= ARGV[1] then return 0 end
redis.call('UNLINK', unpack(KEYS))
return 1`)

// eraseScope removes a scope in which nothing was written since its progress was read. What the sink has not got is
// lost. What is counted in the scope is added to the sums first; its name goes before its events do, and who writes one
// notes the name again afterwards.
func (s *Sink) eraseScope(ctx context.Context, run rollout.RunName, p progress) error {
	if !p.isShipped() {
		if err := s.giveUp(ctx, run, &p); err != nil {
			return err
		}
	}
	if err := s.count(ctx, run, p); err != nil {
		return err
	}
	kinds, err := s.redis.SMembers(ctx, s.keys(run).Kinds()).Result()
	if err != nil {
		return err
	}
	of := s.keys(run)
	keys := []string{of.Of("written"), of.Recent(), of.Kinds(), of.Of("told"), s.cursorKey(run)}
	for _, kind := range kinds {
		keys = append(keys, of.Facts(kind))
	}
	if err := s.redis.SRem(ctx, store.ScopesKey(s.prefix), string(run)).Err(); err != nil {
		return err
	}
	gone, err := eraseScript.Run(ctx, s.redis, keys, p.last).Int()
	if err != nil || gone == 0 {
		return errors.Join(err, s.noteScope(ctx, run))
	}
	_, err = s.redis.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.HDel(ctx, s.countedKey(), string(run))
		if p.since != "" {
			tx.HIncrBy(ctx, s.sinkKey(), "erased", 1)
		}
		return nil
	})
	return err
}
