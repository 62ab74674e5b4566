package live

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// bubble runs a test in its own fake time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// timed reports whether an answer's time went where it should.
func timed(res result, want rollout.Timing) bool { return reflect.DeepEqual(res.Timing, want) }

func TestQueueTimeIsNotChargedToTheTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, 1, &fake{takes: 50 * time.Second})
		defer r.stop()
		first := r.call(t.Context(), turn("q1", 0, 0))
		synctest.Wait()
		second := r.call(t.Context(), turn("q2", 0, 0))
		if res := <-first; res.err != nil || res.Engine != "a" || !timed(res, rollout.Timing{ExecSec: 50, Attempts: 1}) {
			t.Errorf("first: %+v", res)
		}
		if res := <-second; res.err != nil || !timed(res, rollout.Timing{QueueSec: 50, ExecSec: 50, Attempts: 1}) {
			t.Errorf("second: %+v", res)
		}
		r.empty()
	})
}

func TestTimeoutBoundsEachTry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hung := &fake{takes: time.Hour}
		r := newRig(t, Config{}, 1, hung, &fake{takes: 10 * time.Second})
		defer r.stop()
		res := <-r.call(t.Context(), turn("q", 0, 0))
		if res.err != nil || res.Engine != "b" || !timed(res, rollout.Timing{ExecSec: 70, Attempts: 2,
			Failed: []rollout.RequestFailure{{Engine: "a", Code: rollout.CodeTimeout, Sec: 60}}}) {
			t.Errorf("got %+v; want 60 s at the hung engine, then 10 s at the other", res)
		}
		r.empty()
	})
}

func TestOldestGroupFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{takes: time.Second}
		r := newRig(t, Config{}, 1, f)
		defer r.stop()
		var calls []<-chan result
		for i, group := range []int{0, 9, 3, 7, 1} {
			calls = append(calls, r.call(t.Context(), turn(name(i), group, 0)))
			synctest.Wait()
		}
		for _, c := range calls {
			<-c
		}
		if want := []string{"q0", "q4", "q2", "q3", "q1"}; !slices.Equal(f.seen, want) {
			t.Errorf("served %v, want %v", f.seen, want)
		}
		r.empty()
	})
}

func TestFailuresAreTriedElsewhere(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(context.Context, rollout.Request) (rollout.Completion, error)
	}{
		{"gone", fault(rollout.Retryable, rollout.CodeEngineGone)},
		{"dead", fault(rollout.Retryable, rollout.CodeEngineDead)},
		{"bad answer", fault(rollout.Retryable, rollout.CodeBadAnswer)},
		{"wrong model", fault(rollout.Retryable, rollout.CodeWrongModel)},
		{"unknown model", fault(rollout.Retryable, rollout.CodeUnknownModel)},
		{"aborted", fault(rollout.Retryable, rollout.CodeAborted)},
		{"unauthorized", fault(rollout.Permanent, rollout.CodeUnauthorized)},
		{"refused by this engine only", fault(rollout.Permanent, rollout.CodeBadRequest)},
		{"untyped", func(context.Context, rollout.Request) (rollout.Completion, error) {
			return rollout.Completion{}, errors.New("something else")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, Config{}, 1, &fake{answer: tt.fault}, &fake{takes: time.Second})
				defer r.stop()
				res := <-r.call(t.Context(), turn("q", 0, 0))
				if res.err != nil || res.Engine != "b" || res.Timing.Attempts != 2 {
					t.Errorf("got %+v", res)
				}
				r.empty()
			})
		})
	}
}

// TestOwnFaultEndsTheCall: what two engines refuse is the request's fault.
func TestOwnFaultEndsTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		refuses := fault(rollout.Permanent, rollout.CodeBadRequest)
		r := newRig(t, Config{}, 1, &fake{answer: refuses}, &fake{answer: refuses}, &fake{})
		defer r.stop()
		for range 5 {
			res := <-r.call(t.Context(), turn("q", 0, 0))
			wantCode(t, res.err, rollout.CodeBadRequest)
			if rollout.KindOf(res.err) != rollout.Permanent {
				t.Errorf("%v is %s", res.err, rollout.KindOf(res.err))
			}
		}
		for _, e := range r.Snapshot().Engines {
			if e.Breaker != "closed" {
				t.Errorf("engine %s is %s for a fault of the request", e.ID, e.Breaker)
			}
		}
		r.empty()
	})
}

func TestGivenUpWithTheLastFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{Scheduler: dispatch.Config{MaxTries: 2, SuspectAfter: 9}}, 1,
			&fake{answer: fault(rollout.Retryable, rollout.CodeBadAnswer)})
		defer r.stop()
		res := <-r.call(t.Context(), turn("q", 0, 0))
		wantCode(t, res.err, rollout.CodeBadAnswer)
		r.empty()
	})
}

func TestNoEngine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{Scheduler: fast}, 1, &fake{})
		defer r.stop()
		req := turn("q", 0, 0)
		req.Model = "r-v2"
		res := <-r.call(t.Context(), req)
		wantCode(t, res.err, rollout.CodeNoEngine)
		if res.at != 10*time.Second {
			t.Errorf("after %v, want 10 s", res.at)
		}
		r.empty()
	})
}

func TestQueueFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{Scheduler: dispatch.Config{MaxQueued: 1}}, 1, &fake{takes: time.Second})
		defer r.stop()
		var results []<-chan result
		for i := range 3 {
			results = append(results, r.call(t.Context(), turn(name(i), 0, 0)))
			synctest.Wait()
		}
		wantCode(t, (<-results[2]).err, rollout.CodeQueueFull)
		for _, c := range results[:2] {
			if res := <-c; res.err != nil {
				t.Error(res.err)
			}
		}
		r.empty()
	})
}

// TestCallersMayLeave: while queued and while in flight, by cancelling and by deadline; the place is free at once.
func TestCallersMayLeave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{takes: 30 * time.Second}
		r := newRig(t, Config{}, 1, f)
		defer r.stop()
		inFlight, cancel := context.WithCancel(t.Context())
		first := r.call(inFlight, turn("first", 0, 0))
		synctest.Wait()
		queued, cancelQueued := context.WithTimeout(t.Context(), time.Second)
		defer cancelQueued()
		second := r.call(queued, turn("second", 0, 0))
		third := r.call(t.Context(), turn("third", 0, 0))

		res := <-second
		wantCode(t, res.err, rollout.CodeDeadline)
		if !errors.Is(res.err, context.DeadlineExceeded) {
			t.Errorf("%v is not context.DeadlineExceeded", res.err)
		}
		cancel()
		res = <-first
		wantCode(t, res.err, rollout.CodeCancelled)
		if !errors.Is(res.err, context.Canceled) {
			t.Errorf("%v is not context.Canceled", res.err)
		}
		if res := <-third; res.err != nil || res.Timing.QueueSec != 1 {
			t.Errorf("third: %+v; want to wait for one second", res)
		}
		if st := r.Snapshot(); st.ByEngine["a"].ExecSec != 30 || len(st.Breakers) != 0 { // the third request's alone
			t.Errorf("the engine is blamed: %+v", st)
		}
		r.empty()
	})
}

// TestOverloadSlowsDown: an engine that turns requests away gets fewer, and every request is served in the end.
func TestOverloadSlowsDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		overloads := 0
		f.answer = func(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
			f.mu.Lock()
			busy := f.running > 4
			if busy {
				overloads++
			}
			f.mu.Unlock()
			if busy {
				return rollout.Completion{}, rollout.Fail(rollout.Retryable, rollout.CodeOverloaded, &vllm.StatusError{Status: 503})
			}
			return good(ctx, req, time.Second)
		}
		r := newRig(t, Config{}, 32, f)
		defer r.stop()
		var calls []<-chan result
		for i := range 200 {
			calls = append(calls, r.call(t.Context(), turn(name(i), 0, i)))
		}
		for _, c := range calls {
			if res := <-c; res.err != nil {
				t.Error(res.err)
			}
		}
		st := r.Snapshot()
		if e := st.Engines[0]; e.Breaker != "closed" || e.Window > 8 {
			t.Errorf("engine %+v; want it closed, and its window near what it takes", e)
		}
		if overloads > 100 {
			t.Errorf("%d requests were turned away", overloads)
		}
		r.empty()
	})
}

func TestRetryAfterIsBelieved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		first := true
		f.answer = func(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
			if first {
				first = false
				return rollout.Completion{},
					rollout.Fail(rollout.Retryable, rollout.CodeOverloaded, &vllm.StatusError{Status: 429,
						RetryAfter: 3 * time.Second})
			}
			return good(ctx, req, time.Second)
		}
		r := newRig(t, Config{}, 1, f)
		defer r.stop()
		if res := <-r.call(t.Context(), turn("q", 0, 0)); res.err != nil ||
			!timed(res, rollout.Timing{QueueSec: 3, ExecSec: 1, Attempts: 2,
				Failed: []rollout.RequestFailure{{Engine: "a", Code: rollout.CodeOverloaded}}}) {
			t.Errorf("got %+v", res)
		}
	})
}

// TestLostEngine: what was in flight there is dispatched elsewhere at once.
func TestLostEngine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, 2, &fake{takes: 20 * time.Second}, &fake{takes: 10 * time.Second})
		defer r.stop()
		a := r.call(t.Context(), turn("q1", 0, 1))
		synctest.Wait()
		time.Sleep(5 * time.Second)
		r.SetEngines(r.with("a", enginestate.EngineLost))
		if res := <-a; res.err != nil || res.Engine != "b" || !timed(res, rollout.Timing{ExecSec: 15, Attempts: 2,
			Failed: []rollout.RequestFailure{{Engine: "a", Code: rollout.CodeEngineGone, Sec: 5}}}) {
			t.Errorf("got %+v", res)
		}
		if st := r.Snapshot(); st.Redispatched != 1 || len(st.Engines) != 1 || st.ByEngine["a"].ExecSec != 5 {
			t.Errorf("%+v", st)
		}
		r.empty()
	})
}

// TestLateAnswer: an engine that answers although its try was abandoned: the caller takes the answer, and no second
// is made.
func TestLateAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		deaf := &fake{answer: func(_ context.Context, req rollout.Request) (rollout.Completion, error) {
			return good(context.Background(), req, 10*time.Second)
		}}
		b := &fake{takes: time.Hour}
		r := newRig(t, Config{}, 1, deaf, b)
		defer r.stop()
		call := r.call(t.Context(), turn("q1", 0, 1))
		synctest.Wait()
		r.SetEngines(r.with("a", enginestate.EngineLost))
		if res := <-call; res.err != nil || res.Engine != "a" || res.at != 10*time.Second {
			t.Errorf("got %+v", res)
		}
		synctest.Wait()
		if len(b.seen) != 0 {
			t.Errorf("b was asked for %v", b.seen)
		}
		r.empty()
	})
}

// TestDrainAndReturn: joining, draining and unlisted engines finish what they have and get nothing new.
func TestDrainAndReturn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &fake{takes: 10 * time.Second}
		r := newRig(t, Config{}, 4, a)
		defer r.stop()
		for i, list := range [][]enginestate.Engine{r.with("a", enginestate.EngineDraining),
			r.with("a", enginestate.EngineStarting), nil} {
			r.SetEngines(r.list())
			running := r.call(t.Context(), turn("running", 0, 0))
			synctest.Wait()
			r.SetEngines(list)
			waiting := r.call(t.Context(), turn("waiting", 0, 0))
			if res := <-running; res.err != nil || res.Timing.ExecSec != 10 {
				t.Errorf("%d: running: %+v", i, res)
			}
			time.Sleep(time.Second)
			r.SetEngines(r.list())
			if res := <-waiting; res.err != nil || !timed(res, rollout.Timing{QueueSec: 11, ExecSec: 10, Attempts: 1}) {
				t.Errorf("%d: waiting: %+v", i, res)
			}
		}
		r.empty()
	})
}

func TestNewAddressIsANewEngine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, 1, &fake{takes: time.Hour})
		defer r.stop()
		call := r.call(t.Context(), turn("q", 0, 0))
		synctest.Wait()
		r.fakes["a"] = &fake{takes: time.Second}
		list := r.list()
		list[0].URL = "http://elsewhere"
		r.SetEngines(list)
		if res := <-call; res.err != nil || res.at != time.Second {
			t.Errorf("got %+v", res)
		}
		r.empty()
	})
}

// TestSuspectEngine: after some failures nothing is sent to an engine until it says that it is well and one request
// succeeds.
func TestSuspectEngine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &fake{answer: fault(rollout.Retryable, rollout.CodeEngineGone)}
		a.setSick(errors.New("refused"))
		b := &fake{takes: time.Second}
		r := newRig(t, Config{Scheduler: dispatch.Config{AffinitySlack: -1}}, 4, a, b)
		defer r.stop()
		ask := func(n int) {
			var calls []<-chan result
			for i := range n {
				calls = append(calls, r.call(t.Context(), turn(name(i), 0, i)))
			}
			for _, c := range calls {
				if res := <-c; res.err != nil {
					t.Error(res.err)
				}
			}
		}
		ask(40)
		if n := len(a.seen); n > 3+4 { // failures that make it open, and what was in flight then
			t.Errorf("%d requests went to the failing engine", n)
		}
		a.setSick(nil)
		a.answer = nil
		a.takes = time.Second
		time.Sleep(time.Minute)
		before := len(b.seen)
		ask(40)
		if st := r.Snapshot(); st.Engines[0].Breaker != "closed" || len(b.seen)-before > 25 {
			t.Errorf("%+v; b served %d of 40", st.Engines, len(b.seen)-before)
		}
		r.empty()
	})
}

func TestClosing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, 1, &fake{takes: time.Hour})
		var calls []<-chan result
		for i := range 3 {
			calls = append(calls, r.call(t.Context(), turn(name(i), 0, 0)))
		}
		synctest.Wait()
		r.stop()
		for _, c := range append(calls, r.call(t.Context(), turn("late", 0, 0))) {
			res := <-c
			wantCode(t, res.err, rollout.CodeClosed)
			if !errors.Is(res.err, ErrClosed) || res.at != 0 {
				t.Errorf("%+v", res)
			}
		}
		if st := r.Snapshot(); st.Submitted != 3 {
			t.Errorf("the last state is gone: %+v", st)
		}
		r.SetEngines(nil) // after the end: harmless
	})
}

func TestOnDispatchIsAtTheFirstDispatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		at := map[string][]time.Duration{}
		cfg := Config{OnDispatch: func(req rollout.Request) {
			mu.Lock()
			defer mu.Unlock()
			at[req.ID] = append(at[req.ID], time.Since(began))
		}}
		flaky := &fake{}
		tries := 0
		flaky.answer = func(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
			if tries++; tries == 1 {
				return rollout.Completion{}, rollout.Fail(rollout.Retryable, rollout.CodeBadAnswer, errors.New("cut"))
			}
			return good(ctx, req, time.Second)
		}
		r := newRig(t, cfg, 1, flaky)
		defer r.stop()
		first := r.call(t.Context(), turn("q1", 0, 0))
		synctest.Wait()
		<-r.call(t.Context(), turn("q2", 0, 0))
		<-first
		if want := map[string][]time.Duration{"q1": {0}, "q2": {time.Second}}; !reflect.DeepEqual(at, want) {
			t.Errorf("got %v, want %v", at, want)
		}
	})
}

func TestForgetAndRules(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{takes: time.Second}
		r := newRig(t, Config{}, 8, f)
		defer r.stop()
		r.SetRules("r", runspec.Dispatch{MaxInFlightPerEngine: 2})
		var calls []<-chan result
		for i := range 8 {
			calls = append(calls, r.call(t.Context(), turn(name(i), 0, 0)))
		}
		for _, c := range calls {
			<-c
		}
		if f.top != 2 {
			t.Errorf("%d at once, want 2", f.top)
		}
		r.Forget("r")
		if st := r.Snapshot(); len(st.ByRun) != 0 || len(st.Runs) != 0 {
			t.Errorf("the run is kept: %+v", st)
		}
	})
}

// TestChaos: whatever the engines do, every call ends, no limit is exceeded, and the books balance.
func TestChaos(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(7, 7))
		var mu sync.Mutex
		draw := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return rng.IntN(n)
		}
		codes := []rollout.Code{rollout.CodeEngineGone, rollout.CodeEngineDead, rollout.CodeOverloaded,
			rollout.CodeUnknownModel, rollout.CodeBadAnswer,
			rollout.CodeWrongModel, rollout.CodeAborted}
		var fakes []*fake
		for range 4 {
			f := &fake{}
			f.answer = func(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
				switch n := draw(100); {
				case n < 20:
					_, _ = good(ctx, req, time.Duration(draw(300))*time.Millisecond)
					return rollout.Completion{}, rollout.Fail(rollout.Retryable, codes[draw(len(codes))], errors.New("chaos"))
				case n < 22:
					return good(ctx, req, time.Hour) // hung
				}
				return good(ctx, req, time.Duration(draw(2000))*time.Millisecond)
			}
			fakes = append(fakes, f)
		}
		r := newRig(t, Config{Scheduler: dispatch.Config{MaxTries: 8, MissingPause: 100 * time.Millisecond}}, 3, fakes...)
		defer r.stop()
		var callers sync.WaitGroup
		failures := 0
		for i := range 24 {
			callers.Go(func() {
				for j := range 25 {
					req := turn(name(i*100+j), j, i)
					req.Timeout = rollout.Duration(5 * time.Second)
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
					if draw(20) == 0 {
						time.AfterFunc(time.Duration(draw(1000))*time.Millisecond, cancel)
					}
					if _, err := r.Complete(ctx, req); err != nil && ctx.Err() == nil {
						mu.Lock()
						failures++
						mu.Unlock()
					}
					cancel()
				}
			})
		}
		states := []enginestate.EngineState{enginestate.EngineLost, enginestate.EngineDraining, enginestate.EngineStarting}
		for range 20 {
			time.Sleep(time.Duration(draw(3000)) * time.Millisecond)
			r.SetEngines(r.with(rollout.EngineID('a'+rune(draw(4))), states[draw(3)]))
			time.Sleep(time.Duration(1+draw(1000)) * time.Millisecond)
			r.SetEngines(r.list())
		}
		callers.Wait()
		synctest.Wait()
		for _, f := range fakes {
			if f.top > 3 {
				t.Errorf("engine %s had %d requests at once", f.id, f.top)
			}
		}
		if failures > 6 {
			t.Errorf("%d of 600 requests failed", failures)
		}
		r.empty()
	})
}
