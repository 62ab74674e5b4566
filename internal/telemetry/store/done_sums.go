package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// doneSums remembers what is counted of sinks in scopes that are done, where nothing changes: it is read once.
type doneSums struct {
	mu     sync.Mutex
	ofSink map[string]*doneOf
}

// doneOf is what is counted of one sink.
type doneOf struct {
	since  int64 // from when on the sink gets events; another one is another sink
	number int64 // of the latest scope that was read
	in     map[rollout.RunName]sums
	total  sums
}

func (d *doneOf) set(scope rollout.RunName, now sums) {
	d.forget(scope)
	d.in[scope] = now
	d.total.add(now)
}

func (d *doneOf) forget(scope rollout.RunName) {
	d.total.add(d.in[scope].negative())
	delete(d.in, scope)
}

func (a sums) negative() sums {
	return sums{-a.written, -a.passed, -a.lostFacts, -a.lostSamples, -a.waiting}
}

// get is what is known of a sink, empty if nothing is. Its caller has the lock.
func (d *doneSums) get(sink string, since int64) *doneOf {
	if d.ofSink == nil {
		d.ofSink = map[string]*doneOf{}
	}
	of := d.ofSink[sink]
	if of == nil || of.since != since {
		of = &doneOf{since: since, in: map[rollout.RunName]sums{}}
		d.ofSink[sink] = of
	}
	return of
}

// readAtOnce bounds how many scopes are read in one call of Redis.
const readAtOnce = 256

// doneBut is what is counted of a sink in the scopes that are done, as far as learnDone has read it, but for some.
func (s *Store) doneBut(sink string, since int64, scopes []rollout.RunName) sums {
	s.doneSums.mu.Lock()
	defer s.doneSums.mu.Unlock()
	known := s.doneSums.get(sink, since)
	total := known.total
	for _, scope := range scopes {
		total.add(known.in[scope].negative())
	}
	return total
}

// learnDone reads what is counted in scopes that are done since it was called last.
func (s *Store) learnDone(ctx context.Context, sink string, since int64) error {
	s.doneSums.mu.Lock()
	number := s.doneSums.get(sink, since).number
	s.doneSums.mu.Unlock()
	var newer *redis.ZSliceCmd
	var size *redis.IntCmd
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		newer = p.ZRangeByScoreWithScores(ctx, s.doneKey(), &redis.ZRangeBy{
			Min: "(" + strconv.FormatInt(number, 10), Max: "+inf",
		})
		size = p.ZCard(ctx, s.doneKey())
		return nil
	})
	if err != nil {
		return fmt.Errorf("scopes that sink %s is done with: %w", sink, err)
	}
	for portion := range slices.Chunk(newer.Val(), readAtOnce) {
		if err := s.learn(ctx, sink, since, portion); err != nil {
			return err
		}
	}
	return s.forgetErased(ctx, sink, since, size.Val())
}

func (s *Store) learn(ctx context.Context, sink string, since int64, scopes []redis.Z) error {
	names := make([]rollout.RunName, len(scopes))
	for i, z := range scopes {
		name, _ := z.Member.(string) // members of sorted sets are text
		names[i] = rollout.RunName(name)
	}
	in, _, err := s.allScopeSums(ctx, sink, names)
	if err != nil {
		return err
	}
	s.doneSums.mu.Lock()
	defer s.doneSums.mu.Unlock()
	known := s.doneSums.get(sink, since)
	for _, name := range names {
		known.set(name, in[name])
	}
	known.number = max(known.number, int64(scopes[len(scopes)-1].Score))
	return nil
}

// forgetErased forgets scopes that are not done any more, if there are fewer than are known.
func (s *Store) forgetErased(ctx context.Context, sink string, since, size int64) error {
	s.doneSums.mu.Lock()
	known := int64(len(s.doneSums.get(sink, since).in))
	s.doneSums.mu.Unlock()
	if known == size {
		return nil
	}
	names, err := s.rdb.ZRange(ctx, s.doneKey(), 0, -1).Result()
	if err != nil {
		return fmt.Errorf("scopes that sink %s is done with: %w", sink, err)
	}
	done := map[rollout.RunName]bool{}
	for _, name := range names {
		done[rollout.RunName(name)] = true
	}
	s.doneSums.mu.Lock()
	defer s.doneSums.mu.Unlock()
	of := s.doneSums.get(sink, since)
	for name := range of.in {
		if !done[name] {
			of.forget(name)
		}
	}
	return nil
}
