package delivery_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/eventstore/delivery"
)

// leased is a store whose sink is known and leased, and the fence.
func leased(t *testing.T, rdb redis.UniversalClient, limits store.Limits) (delivered, int64) {
	t.Helper()
	s := start(t, rdb, limits)
	fence, mine, err := s.Lease(t.Context(), "server-1", time.Minute)
	if err != nil || !mine {
		t.Fatalf("lease: %t, %v", mine, err)
	}
	return s, fence
}

// write writes events at once.
func write(t *testing.T, s delivered, events ...telemetry.Event) {
	t.Helper()
	for _, e := range events {
		s.Emit(e)
	}
	s.Close()
}

func unshipped(t *testing.T, s delivered, scope rollout.RunName) delivery.Portion {
	t.Helper()
	page, err := s.Unshipped(t.Context(), scope, 100)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// first is a portion of so many events.
func first(p delivery.Portion, n int) delivery.Portion {
	p.Records = p.Records[:n]
	return p
}

func acknowledge(t *testing.T, s delivered, fence int64, p delivery.Portion) {
	t.Helper()
	if err := s.Acknowledge(t.Context(), fence, p); err != nil {
		t.Fatal(err)
	}
}

func status(t *testing.T, s delivered) telemetry.SinkStatus {
	t.Helper()
	got, err := s.SinkStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestCursor ships the events of two scopes, in two portions, and finds nothing left.
func TestCursor(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, fence := leased(t, rdb, store.Limits{})
		write(t, s, fact("demo", 1))
		write(t, s, sample("demo", 2))
		write(t, s, fact("demo", 3), fact("", 4))
		if scopes, err := s.Scopes(t.Context()); err != nil || !slices.Equal(scopes, []rollout.RunName{"", "demo"}) {
			t.Fatalf("scopes %q, %v", scopes, err)
		}
		page := unshipped(t, s, "demo")
		if got := keys(t, page.Records); !slices.Equal(got, []string{"1", "2", "3"}) || page.More() ||
			page.Records[0].WrittenAt().IsZero() || page.Records[0].Droppable || !page.Records[1].Droppable ||
			page.Records[0].Scope != "demo" {
			t.Fatalf("unshipped %q", got)
		}
		if !first(page, 2).More() {
			t.Error("nothing comes behind a part of it")
		}
		acknowledge(t, s, fence, first(page, 2))
		if rest := unshipped(t, s, "demo"); !slices.Equal(keys(t, rest.Records), []string{"3"}) {
			t.Errorf("with the first two acknowledged: %q", keys(t, rest.Records))
		}
		acknowledge(t, s, fence, first(page, 1)) // late
		if got := status(t, s); got.Backlog != 2 || got.Delivered != 2 {
			t.Errorf("the cursor went back: %+v", got)
		}
		acknowledge(t, s, fence, page)
		if rest := unshipped(t, s, "demo"); len(rest.Records) != 0 {
			t.Errorf("shipped: %q", keys(t, rest.Records))
		}
		if scopes, err := s.Scopes(t.Context()); err != nil || !slices.Equal(scopes, []rollout.RunName{""}) {
			t.Errorf("scopes %q, %v", scopes, err)
		}
	})
}

// scriptsFail is a Redis that answers reads and, while it says so, refuses scripts: it is out of memory, say.
type scriptsFail struct {
	redis.Hook
	now bool
}

func (h *scriptsFail) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *scriptsFail) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *scriptsFail) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.now && strings.HasPrefix(cmd.Name(), "eval") {
			err := errors.New("OOM command not allowed when used memory > 'maxmemory'")
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

// TestCursorGoesOnAfterRefusal: what Redis did not take as acknowledged is listed again, and the cursor moves once it
// does.
func TestCursorGoesOnAfterRefusal(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, fence := leased(t, rdb, store.Limits{})
		hook := &scriptsFail{}
		rdb.AddHook(hook)
		write(t, s, fact("demo", 1), fact("demo", 2))
		page := unshipped(t, s, "demo")
		hook.now = true
		if err := s.Acknowledge(t.Context(), fence, page); err == nil {
			t.Fatal("acknowledged while Redis refuses scripts")
		}
		hook.now = false
		if page = unshipped(t, s, "demo"); !slices.Equal(keys(t, page.Records), []string{"1", "2"}) {
			t.Fatalf("unshipped after the refusal: %q", keys(t, page.Records))
		}
		acknowledge(t, s, fence, page)
		if page = unshipped(t, s, "demo"); len(page.Records) != 0 {
			t.Errorf("unshipped in the end: %q", keys(t, page.Records))
		}
	})
}

// TestFencing lets a second shipper take over; the first can move no cursor any more, nor can it if it looked at the
// fence before, once its successor has moved the cursor.
func TestFencing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := t.Context()
		s, fence := leased(t, rdb, store.Limits{})
		write(t, s, fact("demo", 1), fact("demo", 2))
		page := unshipped(t, s, "demo")
		if again, mine, err := s.Lease(ctx, "server-1", time.Minute); err != nil || !mine || again != fence {
			t.Errorf("prolonged: %d, %t, %v", again, mine, err)
		}
		if _, mine, err := s.Lease(ctx, "server-2", time.Minute); err != nil || mine {
			t.Errorf("two have the lease: %v", err)
		}
		if err := s.Release(ctx, "server-1"); err != nil {
			t.Fatal(err)
		}
		next, mine, err := s.Lease(ctx, "server-2", time.Minute)
		if err != nil || !mine || next <= fence {
			t.Fatalf("taken over: fence %d after %d, %t, %v", next, fence, mine, err)
		}
		fenced := func(left int) {
			t.Helper()
			if err := s.Acknowledge(ctx, fence, page); !errors.Is(err, delivery.ErrFenced) {
				t.Errorf("the first shipper: %v", err)
			}
			if page := unshipped(t, s, "demo"); len(page.Records) != left {
				t.Errorf("it moved the cursor: %d left, want %d", len(page.Records), left)
			}
		}
		fenced(2)
		acknowledge(t, s, next, first(page, 1))
		if err := rdb.Set(ctx, "test:{fleet}:sink-fence", fence, 0).Err(); err != nil { // as it was when it looked
			t.Fatal(err)
		}
		fenced(1)
	})
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := t.Context()
		s, fence := leased(t, rdb, store.Limits{})
		write(t, s, fact("demo", 1), fact("demo", 2))
		page := unshipped(t, s, "demo")
		for _, r := range page.Records {
			if err := s.DeadLetter(ctx, r, "field limit exceeded"); err != nil {
				t.Fatal(err)
			}
		}
		acknowledge(t, s, fence, page)
		letters, err := s.DeadLetters(ctx, "", 10)
		if err != nil || len(letters) != 2 || letters[0].Reason != "field limit exceeded" || letters[0].Scope != "demo" ||
			letters[0].Kind != "group_dropped" {
			t.Fatalf("%+v, %v", letters, err)
		}
		if n, err := s.Replay(ctx, letters[1].ID); err != nil || n != 1 {
			t.Fatalf("replayed %d, %v", n, err)
		}
		if _, err := s.Replay(ctx, letters[1].ID); !rollout.Refused(err, rollout.Invalid) {
			t.Errorf("replayed twice: %v", err)
		}
		scopes, err := s.Scopes(ctx)
		if err != nil || !slices.Equal(scopes, []rollout.RunName{store.Replayed}) {
			t.Fatalf("scopes %q, %v", scopes, err)
		}
		if page := unshipped(t, s, store.Replayed).Records; !slices.Equal(keys(t, page), []string{"2"}) {
			t.Errorf("to be shipped again: %q", keys(t, page))
		}
		if n, err := s.Replay(ctx); err != nil || n != 1 {
			t.Errorf("replayed the rest: %d, %v", n, err)
		}
		if kept, all, err := s.DeadLetterCount(ctx); err != nil || kept != 0 || all != 2 {
			t.Errorf("%d kept of %d, %v", kept, all, err)
		}
	})
}

// TestDeadLettersAreFull has as many dead letters as may be: a fact waits, and of samples no more are kept.
func TestDeadLettersAreFull(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := t.Context()
		s, _ := leased(t, rdb, store.Limits{})
		write(t, s, fact("demo", 1), fact("demo", 2), sample("demo", 3))
		page := unshipped(t, s, "demo").Records
		if err := s.DeadLetter(ctx, page[0], "no good"); err != nil {
			t.Fatal(err)
		}
		fill := `for i = 2, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '*', 'event_id', i) end`
		if err := rdb.Eval(ctx, fill, rdb.Keys(ctx, "*dead").Val(), delivery.MaxDeadLetters).Err(); err != redis.Nil {
			t.Fatal(err)
		}
		for i, want := range []error{nil, delivery.ErrDeadLettersFull, nil} { // the first is kept already
			if err := s.DeadLetter(ctx, page[i], "no good"); !errors.Is(err, want) {
				t.Errorf("event %d: got %v, want %v", i+1, err, want)
			}
		}
		if kept, all, err := s.DeadLetterCount(ctx); err != nil || kept != delivery.MaxDeadLetters || all != 1 {
			t.Errorf("%d kept of %d, %v", kept, all, err)
		}
	})
}

// TestUnshippedFactsAreKept holds back what a sink has not got, in a run and after its deletion, up to the bound.
func TestUnshippedFactsAreKept(t *testing.T) {
	t.Parallel()
	limits := store.Limits{Recent: 10, Kinds: map[string]store.KindLimit{"": {Kept: 20, Unshipped: 1000}}}
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := t.Context()
		s, fence := leased(t, rdb, limits)
		var events []telemetry.Event
		for n := range 100 {
			events = append(events, fact("demo", n))
		}
		write(t, s, events...)
		if err := s.Trim(ctx); err != nil {
			t.Fatal(err)
		}
		page := unshipped(t, s, "demo")
		if got := status(t, s); len(page.Records) != 100 || got.Backlog != 100 || got.LostFacts != 0 {
			t.Fatalf("%d events unshipped, %+v", len(page.Records), got)
		}
		acknowledge(t, s, fence, first(page, 50))
		if err := s.Delete(ctx, "demo"); err != nil {
			t.Fatal(err)
		}
		if err := s.Trim(ctx); err != nil {
			t.Fatal(err)
		}
		if page = unshipped(t, s, "demo"); len(page.Records) != 50 {
			t.Fatalf("%d events of the deleted run unshipped", len(page.Records))
		}
		if kept, err := s.Facts(ctx, "demo", "", 1000); err != nil || len(kept) != 50 {
			t.Errorf("%d facts kept, %v", len(kept), err)
		}
		acknowledge(t, s, fence, page)
		if err := rdb.Set(ctx, "test:{demo}:gone", 1, 0).Err(); err != nil { // as the buffer marks a deleted run
			t.Fatal(err)
		}
		if err := s.Trim(ctx); err != nil {
			t.Fatal(err)
		}
		if left, err := rdb.Keys(ctx, "test:{demo}:*").Result(); err != nil || len(left) != 1 {
			t.Errorf("left of the deleted run: %q, %v", left, err)
		}
	})
}

// TestGone says of each kind how many of its oldest facts are not kept, and that samples are not.
func TestGone(t *testing.T) {
	t.Parallel()
	limits := store.Limits{Recent: 10, Kinds: map[string]store.KindLimit{"": {Kept: 20, Unshipped: 1000}}}
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := t.Context()
		s := start(t, rdb, limits)
		for n := range 150 {
			write(t, s, fact("demo", n))
		}
		write(t, s, sample("demo", 1))
		if err := s.Trim(ctx); err != nil {
			t.Fatal(err)
		}
		kept, err := s.Facts(ctx, "demo", "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		gone, err := s.Gone(ctx, "demo")
		if err != nil || len(gone) != 2 || gone[0].Kind != "" || gone[1].Kind != "group_dropped" {
			t.Fatalf("gone: %+v, %v", gone, err)
		}
		if n := gone[1].Events; n != 0 && n != 150-int64(len(kept)) {
			t.Errorf("%d facts are gone, %d kept of 150", n, len(kept))
		}
		if gone, err := s.Gone(ctx, "other"); err != nil || len(gone) != 0 {
			t.Errorf("of a run that wrote nothing: %+v, %v", gone, err)
		}
	})
}

// TestLossIsCounted lets go of facts above the bound, and knows how many.
func TestLossIsCounted(t *testing.T) {
	t.Parallel()
	limits := store.Limits{Recent: 100, Kinds: map[string]store.KindLimit{"": {Kept: 200, Unshipped: 200}}}
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, fence := leased(t, rdb, limits)
		var events []telemetry.Event
		for n := range 1000 {
			events = append(events, fact("demo", n), sample("demo", n))
		}
		// Facts and samples are queued apart. Only a later sample tells that those before it are lost.
		write(t, s, events[:1999]...)
		write(t, start(t, rdb, limits), events[1999])
		shipped := 0
		for {
			page := unshipped(t, s, "demo")
			if len(page.Records) == 0 {
				break
			}
			shipped += len(page.Records)
			acknowledge(t, s, fence, page)
		}
		got := status(t, s)
		if got.Backlog != 0 || int64(shipped)+got.LostFacts+got.LostSamples != 2000 ||
			got.LostFacts < 500 || got.LostSamples < 500 {
			t.Errorf("%d shipped, %+v", shipped, got)
		}
	})
}

// TestForgetSink: a sink that is no longer shipped to can be forgotten, with all that is kept for it, and come again.
func TestForgetSink(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := t.Context()
		s, fence := leased(t, rdb, store.Limits{})
		write(t, s, fact("demo", 1), fact("demo", 2), fact("", 3))
		page := unshipped(t, s, "demo")
		if err := s.DeadLetter(ctx, page.Records[0], "no good"); err != nil {
			t.Fatal(err)
		}
		acknowledge(t, s, fence, first(page, 1))
		if err := s.ForgetSink(ctx); !rollout.Refused(err, rollout.Conflict) {
			t.Errorf("forgotten while a server delivers: %v", err)
		}
		if err := s.Release(ctx, "server-1"); err != nil {
			t.Fatal(err)
		}
		if err := s.ForgetSink(ctx); err != nil {
			t.Fatal(err)
		}
		if got, err := s.SinkStatus(ctx); err != nil || got != (telemetry.SinkStatus{}) {
			t.Errorf("%+v, %v", got, err)
		}
		left, err := rdb.Keys(ctx, "test:{fleet}:sink*").Result()
		if err != nil || !slices.Equal(left, []string{"test:{fleet}:sink-fence"}) {
			t.Errorf("left %q, %v", left, err)
		}
		if again, mine, err := s.Lease(ctx, "server-2", time.Minute); err != nil || !mine || again <= fence {
			t.Errorf("fence %d after %d, %t, %v", again, fence, mine, err)
		}
		if page := unshipped(t, s, "demo"); len(page.Records) != 2 {
			t.Errorf("%d events for the sink that begins anew", len(page.Records))
		}
	})
}
