package live

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/vllm"
)

// batchFake is an engine that takes several requests in one call.
type batchFake struct {
	*fake
	refuse string // prompt that makes it refuse a call
	fails  int    // calls that fail first

	mu    sync.Mutex
	calls [][]string // request ids
	ended []error    // contexts of calls when they ended
}

func (b *batchFake) CompleteMany(ctx context.Context, reqs []rollout.Request) ([]vllm.Answer, error) {
	var ids []string
	for _, r := range reqs {
		ids = append(ids, r.ID)
	}
	b.mu.Lock()
	b.calls = append(b.calls, ids)
	fail := b.fails > 0
	b.fails--
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.ended = append(b.ended, ctx.Err())
		b.mu.Unlock()
	}()
	if fail {
		return nil, rollout.Fail(rollout.Retryable, rollout.CodeEngineGone, errors.New("as told"))
	}
	if slices.ContainsFunc(reqs, func(r rollout.Request) bool { return b.refuse != "" && r.Prompt == b.refuse }) {
		return nil, rollout.Fail(rollout.Permanent, rollout.CodeBadRequest, errors.New("as told"))
	}
	answers := make([]vllm.Answer, len(reqs))
	for i, r := range reqs {
		answers[i].Completion, answers[i].Err = good(ctx, r, 0)
		answers[i].Completion.Text = "to " + r.ID
	}
	select {
	case <-time.After(b.takes):
		return answers, nil
	case <-ctx.Done():
		return nil, rollout.Fail(rollout.Retryable, rollout.CodeCancelled, ctx.Err())
	}
}

// newBatchRig is a dispatcher over one engine that takes batches of four.
func newBatchRig(t *testing.T, cfg Config, b *batchFake) *rig {
	t.Helper()
	cfg.Clients = func(rollout.Engine) Engine { return b }
	r := newRig(t, cfg, 16, b.fake)
	r.SetRules("r", rollout.Dispatch{Batching: rollout.Batching{MaxBatchSize: 4,
		FlushWindow: rollout.Duration(time.Second)}})
	return r
}

func TestBatchIsOneCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := 0
		b := &batchFake{fake: &fake{takes: 10 * time.Second}}
		var mu sync.Mutex
		r := newBatchRig(t, Config{Scheduler: fast, OnDispatch: func(rollout.Request) { mu.Lock(); began++; mu.Unlock() }}, b)
		defer r.stop()
		var results []<-chan result
		for i := range 5 {
			results = append(results, r.call(t.Context(), turn(name(i), 0, i)))
			synctest.Wait()
		}
		for i, ch := range results {
			got := <-ch
			want, text := 10*time.Second, "to "+name(i)
			if i == 4 {
				want, text = 20*time.Second, "" // it waited for the engine, and not for the flush window after that
			}
			if got.err != nil || got.Text != text || got.at != want || got.Timing.Tries != 1 || got.Engine != "a" {
				t.Errorf("request %d: %+v after %v; want %v", i, got, got.at, want)
			}
		}
		// A batch of one is an ordinary call.
		if len(b.calls) != 1 || !slices.Equal(b.calls[0], []string{"q0", "q1", "q2", "q3"}) ||
			!slices.Equal(b.seen, []string{"q4"}) || began != 5 {
			t.Errorf("batches %v, single %v, %d began", b.calls, b.seen, began)
		}
		r.empty()
	})
}

// TestRefusedBatch: what is wrong with one request of a batch fails that one alone.
func TestRefusedBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &batchFake{fake: &fake{takes: time.Second}, refuse: "bad"}
		b.answer = func(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
			if req.Prompt == "bad" {
				return fault(rollout.Permanent, rollout.CodeBadRequest)(ctx, req)
			}
			return good(ctx, req, time.Second)
		}
		r := newBatchRig(t, Config{Scheduler: fast}, b)
		defer r.stop()
		var results []<-chan result
		for i := range 4 {
			req := turn(name(i), 0, i)
			if i == 2 {
				req.Prompt = "bad"
			}
			results = append(results, r.call(t.Context(), req))
		}
		for i, ch := range results {
			switch got := <-ch; {
			case i == 2:
				wantCode(t, got.err, rollout.CodeBadRequest)
			case got.err != nil || got.Timing.Tries != 2:
				t.Errorf("request %d: %d tries, %v", i, got.Timing.Tries, got.err)
			}
		}
		r.empty()
	})
}

// TestFailedBatch: a call that fails is made again, and is one failure of the engine.
func TestFailedBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &batchFake{fake: &fake{takes: time.Second}, fails: 2}
		r := newBatchRig(t, Config{Scheduler: fast}, b)
		defer r.stop()
		var results []<-chan result
		for i := range 4 {
			results = append(results, r.call(t.Context(), turn(name(i), 0, i)))
		}
		for i, ch := range results {
			if got := <-ch; got.err != nil || got.Timing.Tries != 3 || got.at != time.Second {
				t.Errorf("request %d: %d tries in %v, %v", i, got.Timing.Tries, got.at, got.err)
			}
		}
		r.empty()
	})
}

// TestBatchOutlivesItsCallers: one caller that goes away, or whose deadline passes, does not end the others' call;
// the last one does.
func TestBatchOutlivesItsCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &batchFake{fake: &fake{takes: 10 * time.Second}}
		cfg := fast
		cfg.MaxTries = 1
		r := newBatchRig(t, Config{Scheduler: cfg}, b)
		defer r.stop()
		ctx, leave := context.WithCancel(t.Context())
		var results []<-chan result
		for i := range 4 {
			req := turn(name(i), 0, i)
			caller := t.Context()
			switch i {
			case 0:
				caller = ctx
			case 1:
				req.Timeout = rollout.Duration(2 * time.Second)
			}
			results = append(results, r.call(caller, req))
		}
		synctest.Wait()
		leave()
		got := <-results[0]
		wantCode(t, got.err, "cancelled")
		got = <-results[1]
		wantCode(t, got.err, rollout.CodeTimeout)
		for _, ch := range results[2:] {
			if got := <-ch; got.err != nil || got.at != 10*time.Second {
				t.Errorf("after %v: %v", got.at, got.err)
			}
		}
		ctx, leave = context.WithCancel(t.Context())
		for i := range 4 {
			results[i] = r.call(ctx, turn(name(i), 1, i))
		}
		synctest.Wait()
		leave()
		for _, ch := range results {
			<-ch
		}
		synctest.Wait()
		if len(b.ended) != 2 || b.ended[0] != nil || b.ended[1] == nil {
			t.Errorf("calls ended with %v; want the second cancelled", b.ended)
		}
		r.empty()
	})
}

// TestStartedIsBounded: a run's groups are counted, however many there are, in bounded memory.
func TestStartedIsBounded(t *testing.T) {
	t.Parallel()
	s := started{recent: map[rollout.GroupSeq]bool{}}
	const groups = 100_000
	for g := range groups {
		s.add(rollout.GroupSeq(g ^ 1)) // nearly in order
		s.add(rollout.GroupSeq(max(0, g-500)))
		if len(s.recent) > maxStarted {
			t.Fatalf("%d groups are remembered", len(s.recent))
		}
	}
	if s.count != groups {
		t.Errorf("counted %d groups, want %d", s.count, groups)
	}
}
