package store_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	store "github.com/millrace/millrace/internal/store/eventstore"
)

// link is a Redis that can be cut off. It lives in the test's synctest bubble, if it has one.
type link struct {
	redis.UniversalClient
	unavailable atomic.Bool
}

func newLink(t *testing.T) *link {
	t.Helper()
	server := miniredis.NewMiniRedis()
	l := &link{}
	l.UniversalClient = redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", // not dialled, but a host name would be looked up
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			if l.unavailable.Load() {
				return nil, errors.New("connection refused")
			}
			return server.Dial()
		},
		DisableIdentity: true,
		MaxRetries:      -1,
		DialerRetries:   1,
		ConnMaxLifetime: time.Nanosecond, // every command dials, and so notices a cut
	})
	t.Cleanup(func() {
		l.Close()
		server.Close()
	})
	return l
}

// start runs a store until the test ends.
func start(t *testing.T, rdb redis.UniversalClient, limits store.Limits) *store.Store {
	t.Helper()
	s := store.New(rdb, "test", limits)
	go s.Run(context.WithoutCancel(t.Context()))
	t.Cleanup(s.Close)
	return s
}

func fact(run rollout.RunName, n int) telemetry.Event {
	return telemetry.Event{At: time.Unix(int64(n), 0).UTC(), Run: run, Key: fmt.Sprint(n),
		Body: telemetry.GroupDropped{Seq: rollout.GroupSeq(n), Code: "stale"}}
}

func sample(run rollout.RunName, n int) telemetry.Event {
	return telemetry.Event{At: time.Unix(int64(n), 0).UTC(), Run: run, Key: fmt.Sprint(n),
		Body: telemetry.BufferLevel{Target: int64(n)}}
}

func keys(t *testing.T, records []store.Record) []string {
	t.Helper()
	var out []string
	for _, r := range records {
		e, err := r.Event()
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind() != r.Kind {
			t.Errorf("record says %s, event %s", r.Kind, e.Kind())
		}
		out = append(out, e.Key)
	}
	return out
}

// once drops repetitions: on a machine so loaded that Redis answers late, an event is written again, with the same id.
func once(keys []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(keys, func(k string) bool {
		again := seen[k]
		seen[k] = true
		return again
	})
}

func TestStoreKeepsEventsInOrder(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := start(t, newLink(t), store.Limits{})
	for n := range 600 {
		s.Emit(fact("demo", n))
		s.Emit(telemetry.Event{Engine: "a", Key: fmt.Sprint(n), Body: telemetry.EngineChanged{
			State: enginestate.EngineReady}})
	}
	s.Close()
	var got []string
	after := ""
	for {
		page, err := s.Recent(ctx, "demo", after, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		got = append(got, keys(t, page)...)
		after = page[len(page)-1].ID
	}
	got = once(got)
	if len(got) != 600 {
		t.Fatalf("%d events of 600", len(got))
	}
	for n, key := range got {
		if key != fmt.Sprint(n) {
			t.Fatalf("event %d is %s", n, key)
		}
	}
	if fleet, err := s.Recent(ctx, "", "", 10_000); err != nil || len(once(keys(t, fleet))) != 600 {
		t.Errorf("%d events of the fleet, %v", len(fleet), err)
	}
	if got := s.Stats(); got.Written != 1200 || got.Lost() != 0 {
		t.Errorf("stats %+v", got)
	}
}

// TestSamplesAreReadAlone: who reads samples of a kind gets each once, and reads on behind all that was looked at.
func TestSamplesAreReadAlone(t *testing.T) {
	t.Parallel()
	s := start(t, newLink(t), store.Limits{})
	for n := range 50 {
		s.Emit(fact("demo", n))
		s.Emit(telemetry.Event{Run: "demo", Key: fmt.Sprint("level ", n), Body: telemetry.BufferLevel{WindowSec: 1}})
	}
	s.Close()
	kind, after, more := telemetry.KindOf(telemetry.BufferLevel{}), "", true
	var got []string
	for reads := 0; more; reads++ {
		if reads > 200 {
			t.Fatal("it never comes to the end")
		}
		page, next, goesOn, err := s.Samples(t.Context(), "demo", after, 7, kind)
		if err != nil {
			t.Fatal(err)
		}
		got, after, more = append(got, keys(t, page)...), next, goesOn
	}
	if len(once(got)) != 50 || got[0] != "level 0" || got[len(got)-1] != "level 49" {
		t.Errorf("%d samples: %q", len(got), got)
	}
	if page, next, goesOn, err := s.Samples(t.Context(), "demo", after, 7, kind); err != nil || goesOn || next != after ||
		len(page) > 0 {
		t.Errorf("behind the end: %v, %s, %v, %v", page, next, goesOn, err)
	}
	if _, _, _, err := s.Samples(t.Context(), "demo", "x", 7, kind); !rollout.Refused(err, rollout.Invalid) {
		t.Errorf("after x: %v", err)
	}
}

func TestFactsOutliveSamples(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := newLink(t)
	s := start(t, rdb, store.Limits{Recent: 10})
	for n := range 50 {
		s.Emit(fact("demo", n))
		s.Emit(sample("demo", n+1000))
	}
	s.Close()
	last := start(t, rdb, store.Limits{Recent: 10}) // facts and samples are queued apart: the latest ten may all be facts
	last.Emit(sample("demo", 1050))
	last.Close()
	page, err := s.Recent(ctx, "demo", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	var facts, samples int
	for i, key := range keys(t, page) {
		if page[i].Kind != "group_dropped" {
			samples++
			continue
		}
		if key != fmt.Sprint(facts) {
			t.Errorf("fact %s is at the place of fact %d", key, facts)
		}
		facts++
	}
	if facts != 50 || samples == 0 || samples > 10 {
		t.Errorf("%d facts and %d samples; want 50 and at most 10", facts, samples)
	}
	// A reader that resumes in the trimmed part misses no fact.
	rest, err := s.Recent(ctx, "demo", page[19].ID, 1000)
	if err != nil || len(rest) != len(page)-20 {
		t.Errorf("resumed with %d events, %v; want %d", len(rest), err, len(page)-20)
	}
	if only, err := s.Facts(ctx, "demo", "", 1000); err != nil || len(only) != 50 {
		t.Errorf("%d facts, %v", len(only), err)
	}
	if _, err := s.Recent(ctx, "demo", "yesterday", 10); !rollout.Refused(err, rollout.Invalid) {
		t.Errorf("a made-up id: %v", err)
	}
}

func TestEmitNeverWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rdb := newLink(t)
		rdb.unavailable.Store(true)
		s := start(t, rdb, store.Limits{Queue: 100})
		began := time.Now()
		for n := range 600 {
			s.Emit(sample("demo", n))
			s.Emit(fact("demo", n))
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("emitting took %v", took)
		}
		time.Sleep(time.Minute)
		stats := s.Stats()
		if stats.Written != 0 || stats.LostFacts < 1 || stats.LostSamples < 100 || stats.Waiting > 600 || !stats.Unavailable {
			t.Errorf("while Redis is unavailable: %+v", stats)
		}
		rdb.unavailable.Store(false)
		time.Sleep(10 * time.Second)
		after := s.Stats()
		if after.Lost() != stats.Lost() || after.Written+after.Lost() != 1200 || after.Waiting != 0 || after.Unavailable {
			t.Errorf("when it is back: %+v, before: %+v", after, stats)
		}
	})
}

func TestCloseGivesUpInBoundedTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rdb := newLink(t)
		rdb.unavailable.Store(true)
		s := start(t, rdb, store.Limits{})
		for n := range 1000 {
			s.Emit(fact("demo", n))
		}
		began := time.Now()
		s.Close()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("closing took %v", took)
		}
		if got := s.Stats(); got.LostFacts != 1000 {
			t.Errorf("stats %+v; all 1000 are lost, and counted", got)
		}
		s.Close()
		s.Emit(fact("demo", 1)) // harmless
	})
}

func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, newLink(t), store.Limits{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for n := range 300 {
			s.Emit(fact("demo", n))
		}
		var mu sync.Mutex
		var seen []store.Record
		ended := make(chan error, 1)
		go func() {
			ended <- s.Follow(ctx, "demo", "", func(r store.Record) error {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, r)
				return nil
			})
		}()
		time.Sleep(time.Second)
		for n := range 10 {
			s.Emit(fact("demo", 300+n))
		}
		time.Sleep(time.Second)
		mu.Lock()
		if len(seen) != 310 {
			t.Errorf("followed %d events of 310", len(seen))
		}
		last := seen[304].ID
		mu.Unlock()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("follow: %v", err)
		}
		stop := errors.New("enough")
		resumed := 0
		err := s.Follow(t.Context(), "demo", last, func(store.Record) error {
			if resumed++; resumed == 5 {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) || resumed != 5 {
			t.Errorf("resumed with %d events, %v", resumed, err)
		}
	})
}

func TestEventsThatJSONCannotSay(t *testing.T) {
	t.Parallel()
	s := start(t, newLink(t), store.Limits{})
	inf := telemetry.Event{Run: "demo", Body: telemetry.DispatchSample{InputTPS: 1 / zero}}
	s.Emit(inf)
	s.Emit(fact("demo", 1))
	s.Close()
	if got := s.Stats(); got.Written != 1 || got.LostSamples != 1 {
		t.Errorf("stats %+v", got)
	}
}

var zero float64

// TestOneBadRunHoldsUpNoOther: the keys of one run are not what they should be. Facts of other runs are written, what
// Redis refuses is counted, and the reason is known.
func TestOneBadRunHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := t.Context()
		if err := rdb.Set(ctx, "test:{bad}:written", "no hash", 0).Err(); err != nil {
			t.Fatal(err)
		}
		s := start(t, rdb, store.Limits{})
		for n := range 20 {
			s.Emit(fact("bad", n))
			s.Emit(fact("good", n))
			s.Emit(sample("bad", n))
		}
		s.Close()
		got := s.Stats()
		kept, err := s.Facts(ctx, "good", "", 100)
		if err != nil || len(kept) != 20 || got.Written != 20 || got.LostFacts != 20 || got.LostSamples != 20 ||
			got.Waiting != 0 || !strings.Contains(got.Refusal, "bad") {
			t.Errorf("%d facts of the other run, %+v, %v", len(kept), got, err)
		}
	})
}

// TestBoundsHoldAnOutage: what a run of 64 groups of 8 games tells in ten hours without its sink is kept, with a step a
// minute and with one every five seconds.
func TestBoundsHoldAnOutage(t *testing.T) {
	t.Parallel()
	const outage = 10 * time.Hour
	for _, stepTakes := range []time.Duration{time.Minute, 5 * time.Second} {
		steps := int64(outage / stepTakes)
		for kind, most := range map[string]int64{
			"training_step": steps, "batch_claimed": steps, "policy_published": 3 * steps, "diagnosed": steps,
			"group_ready": 64 * steps, "rollout_complete": 64 * 8 * steps, "group_dropped": 32 * steps,
			"rollout_error":  64 * steps,                              // one game of eight fails once
			"adapter_loaded": 64 * steps,                              // on as many engines
			"token_rates":    int64(outage/(15*time.Second)) * 4 * 64, // of four versions on 64 engines
		} {
			if kept := store.New(nil, "", store.Limits{}).Limits.Of(kind).Unshipped; kept < most {
				t.Errorf("steps of %v: %d of kind %s are kept, %d are told", stepTakes, kept, kind, most)
			}
		}
	}
}
