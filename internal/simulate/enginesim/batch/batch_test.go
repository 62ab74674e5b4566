package batch

import (
	"math/rand/v2"
	"testing"
	"time"
)

func limits() Limits {
	return Limits{Sequences: 512, Tokens: 16384, KV: 900_000, Block: 16, Adapters: 4, HostAdapter: 6}
}

// drain advances an engine until it is idle and returns when each request finished.
func drain(s *Scheduler) map[int64]time.Duration {
	finished := map[int64]time.Duration{}
	for {
		at, ok := s.Next()
		events := s.Advance(at)
		for _, e := range events {
			if e.Kind == Finished {
				finished[e.ID] = e.At
			}
		}
		if !ok {
			return finished
		}
	}
}

func TestCalibration(t *testing.T) {
	t.Parallel()
	c := A100Qwen7B()
	for _, tt := range []struct {
		name     string
		work     Work
		min, max time.Duration
	}{
		{"decode alone: 84 tokens/s published", Work{Decoding: 1, KV: 100}, 11_500 * time.Microsecond,
			12_500 * time.Microsecond},
		{"128 sequences at 450 tokens", Work{Decoding: 128, KV: 128 * 450}, 14 * time.Millisecond, 17 * time.Millisecond},
		{"512 sequences at 450 tokens", Work{Decoding: 512, KV: 512 * 450}, 36 * time.Millisecond, 42 * time.Millisecond},
		{"prefill of 4k tokens: about 20k tokens/s", Work{Prefill: 4096, Attended: 4096 * 4096}, 190 * time.Millisecond,
			260 * time.Millisecond},
	} {
		if got := c.Duration(tt.work); got < tt.min || got > tt.max {
			t.Errorf("%s: %v, want %v to %v", tt.name, got, tt.min, tt.max)
		}
	}
}

// TestPublishedThroughput: 50 requests of 100 prompt and 600 output tokens on an A100-80GB with a
// 7B Qwen gave 3,362 tokens/s. The model has no tokenising, sampling or network, so it may be
// faster, but not by much.
func TestPublishedThroughput(t *testing.T) {
	t.Parallel()
	s := New(A100Qwen7B(), limits())
	for id := range int64(50) {
		_ = s.Submit(0, Request{ID: id, Prompt: 100, Output: 600})
	}
	var last time.Duration
	for _, at := range drain(s) {
		last = max(last, at)
	}
	if rate := 50 * 600 / last.Seconds(); rate < 3362 || rate > 3362*1.3 {
		t.Errorf("%.0f tokens/s", rate)
	}
}

func TestPhysicalCeilings(t *testing.T) {
	t.Parallel()
	c := A100Qwen7B()
	if rate := 16384 / c.Duration(Work{Prefill: 16384}).Seconds(); rate > 22_300 {
		t.Errorf("prefill of %.0f tokens/s exceeds 312 TFLOPS", rate)
	}
	if step := c.Duration(Work{Decoding: 1}); step < 7_500*time.Microsecond {
		t.Errorf("a decode step of %v reads the weights faster than memory can", step)
	}
}

func FuzzDurationIsMonotone(f *testing.F) {
	f.Add(uint16(1), uint32(100), uint16(0), uint16(1), uint32(50), uint16(400))
	f.Fuzz(func(t *testing.T, decoding uint16, kv uint32, prefill, moreDecoding uint16, moreKV uint32,
		morePrefill uint16) {
		c := A100Qwen7B()
		less := Work{Decoding: int(decoding), KV: int(kv), Prefill: int(prefill)}
		more := Work{Decoding: int(decoding) + int(moreDecoding), KV: int(kv) + int(moreKV), Prefill: int(prefill) +
			int(morePrefill)}
		if c.Duration(more) < c.Duration(less) {
			t.Errorf("%+v takes longer than %+v", less, more)
		}
		adapted := less
		adapted.UseAdapter = true
		if c.Duration(adapted) < c.Duration(less) {
			t.Error("an adapter makes a step shorter")
		}
	})
}

func TestOneRequest(t *testing.T) {
	t.Parallel()
	s := New(A100Qwen7B(), limits())
	if err := s.Submit(0, Request{ID: 1, Prompt: 440, Output: 24}); err != nil {
		t.Fatal(err)
	}
	var want time.Duration
	want += s.cost.Duration(Work{Prefill: 440, Attended: 440 * 440})
	for i := range 23 {
		want += s.cost.Duration(Work{Decoding: 1, KV: 441 + i})
	}
	got := drain(s)[1]
	if diff := got - want; diff.Abs() > time.Microsecond {
		t.Errorf("finished at %v, want %v", got, want)
	}
	if n := s.Totals(); n.PromptTokens != 440 || n.GenerationTokens != 24 || n.Steps != 24 || n.Busy != got {
		t.Errorf("totals %+v", n)
	}
}

func TestArrivalJoinsAtTheNextStep(t *testing.T) {
	t.Parallel()
	s := New(A100Qwen7B(), limits())
	_ = s.Submit(0, Request{ID: 1, Prompt: 100, Output: 1000})
	s.Advance(time.Second)
	_ = s.Submit(time.Second, Request{ID: 2, Prompt: 100, Output: 10})
	at, _ := s.Next()
	if wait := at - time.Second; wait <= 0 || wait > 13*time.Millisecond {
		t.Errorf("the step in progress ends %v later", wait)
	}
	events := s.Advance(at)
	if len(events) != 1 || events[0].Kind != Admitted || events[0].At != at {
		t.Errorf("at its end: %+v", events)
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	l := limits()
	l.Adapters = 1
	s := New(A100Qwen7B(), l)
	_ = s.Submit(0, Request{ID: 1, Adapter: "v1", Prompt: 16, Output: 50})
	_ = s.Submit(0, Request{ID: 2, Adapter: "v2", Prompt: 16, Output: 5})
	_ = s.Submit(0, Request{ID: 3, Adapter: "v1", Prompt: 16, Output: 5})
	_ = s.Submit(0, Request{ID: 4, Prompt: 16, Output: 5})
	s.Advance(40 * time.Millisecond)
	if h := s.Held(); h.Running != 3 || h.Deferred != 1 {
		t.Errorf("held %+v, want the second adapter deferred and the rest running", h)
	}
	done := drain(s)
	if done[2] < done[1] {
		t.Error("the deferred adapter overtook the one in the slot")
	}
}

func TestMemoryHoldsBackInOrder(t *testing.T) {
	t.Parallel()
	l := limits()
	l.KV = 1000
	s := New(A100Qwen7B(), l)
	_ = s.Submit(0, Request{ID: 1, Prompt: 500, Output: 100})
	_ = s.Submit(0, Request{ID: 2, Prompt: 500, Output: 10})
	_ = s.Submit(0, Request{ID: 3, Prompt: 10, Output: 10})
	if err := s.Submit(0, Request{ID: 4, Prompt: 990, Output: 11}); err == nil {
		t.Error("a request larger than the cache is accepted")
	}
	done := drain(s)
	if len(done) != 3 || done[3] < done[1] {
		t.Errorf("finished at %v: a later small request must not overtake", done)
	}
}

func TestPrefixCache(t *testing.T) {
	t.Parallel()
	blocks := func(n int, salt uint64) []Segment {
		out := make([]Segment, n)
		for i := range out {
			out[i] = Segment{salt<<32 | uint64(i), 1}
		}
		return out
	}
	s := New(A100Qwen7B(), limits())
	cached := func(id int64, prompt int, prefix []Segment) int {
		now, _ := s.Next()
		s.Advance(now)
		_ = s.Submit(now, Request{ID: id, Prompt: prompt, Output: 16, Prefix: prefix})
		hit := -1
		for {
			at, ok := s.Next()
			events := s.Advance(at)
			for _, e := range events {
				if e.Kind == Admitted {
					hit = e.Cached
				}
			}
			if !ok {
				return hit
			}
		}
	}
	if got := cached(1, 160, blocks(11, 1)); got != 0 {
		t.Errorf("cold: %d tokens", got)
	}
	if got := cached(2, 160, blocks(11, 1)); got != 144 {
		t.Errorf("warm: %d tokens, want all full blocks before the last token", got)
	}
	if got := cached(3, 200, blocks(13, 1)); got != 176 {
		t.Errorf("a longer prompt: %d tokens, want prompt and output of the earlier one", got)
	}
	if got := cached(4, 160, blocks(11, 2)); got != 0 {
		t.Errorf("another adapter's prefix: %d tokens", got)
	}
}

func TestPrefixCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := newPrefixCache()
	for i := range uint64(100) {
		touchAll(c, []Segment{{i, 1}}, 1)
		c.shrink(10)
	}
	if newest := hitsOf(c, []Segment{{99, 1}}, 1); c.blocks != 10 || newest != 1 || hitsOf(c, []Segment{{89, 1}}, 1) != 0 {
		t.Errorf("%d blocks remain; the newest is cached: %d", c.blocks, newest)
	}
	if len(c.segments) > 12 {
		t.Errorf("%d segments allocated: freed ones are not used again", len(c.segments))
	}
}

func TestAdapterPlaces(t *testing.T) {
	t.Parallel()
	cost := A100Qwen7B()
	c := newAdapterCache(2, 3)
	cold, warm := cost.AdapterRead+cost.AdapterCopy, cost.AdapterCopy
	for i, tt := range []struct {
		adapter string
		want    time.Duration
	}{
		{"", 0}, {"a", cold}, {"a", 0}, {"b", cold}, {"c", cold}, {"a", warm}, {"d", cold}, {"b", cold},
	} {
		if got := c.use(tt.adapter, cost); got != tt.want {
			t.Errorf("use %d of %q takes %v, want %v", i, tt.adapter, got, tt.want)
		}
	}
}

func TestLoadStallsTheEngine(t *testing.T) {
	t.Parallel()
	s := New(A100Qwen7B(), limits())
	_ = s.Submit(0, Request{ID: 1, Prompt: 100, Output: 100})
	quiet := drain(s)[1]
	s = New(A100Qwen7B(), limits())
	_ = s.Submit(0, Request{ID: 1, Prompt: 100, Output: 100})
	s.Load(500*time.Millisecond, 9, "v1")
	stalled := drain(s)[1]
	if got, want := stalled-quiet, s.cost.AdapterRead+s.cost.AdapterCopy; (got - want).Abs() > time.Microsecond {
		t.Errorf("the load delayed a running request by %v, want %v", got, want)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	s := New(A100Qwen7B(), limits())
	_ = s.Submit(0, Request{ID: 1, Prompt: 100, Output: 10})
	s.SetPaused(20*time.Millisecond, true)
	s.Advance(time.Hour)
	if _, ok := s.Next(); ok || s.Held().Running != 1 {
		t.Error("a paused engine goes on")
	}
	s.SetPaused(time.Hour, false)
	if done := drain(s); done[1] < time.Hour {
		t.Errorf("finished at %v", done[1])
	}
}

// TestCoalescedStepsEqualSingleSteps runs one workload with spans and one step at a time.
func TestCoalescedStepsEqualSingleSteps(t *testing.T) {
	t.Parallel()
	run := func(single bool) map[int64]time.Duration {
		rng := rand.New(rand.NewPCG(3, 4))
		s := New(A100Qwen7B(), limits())
		finished := map[int64]time.Duration{}
		collect := func(at time.Duration) {
			events := s.Advance(at)
			for _, e := range events {
				if e.Kind == Finished {
					finished[e.ID] = e.At
				}
			}
		}
		next := func() (time.Duration, bool) {
			if single {
				s.cur.cut()
			}
			return s.Next()
		}
		now := time.Duration(0)
		for id := range int64(200) {
			now += time.Duration(rng.IntN(int(60 * time.Millisecond)))
			for at, ok := next(); ok && at <= now; at, ok = next() {
				collect(at)
			}
			_ = s.Submit(now, Request{ID: id, Prompt: 1 + rng.IntN(2000), Output: 1 + rng.IntN(60)})
		}
		for at, ok := next(); ok; at, ok = next() {
			collect(at)
		}
		return finished
	}
	whole, single := run(false), run(true)
	for id, at := range whole {
		if diff := (at - single[id]).Abs(); diff > 10*time.Microsecond {
			t.Fatalf("request %d: %v coalesced, %v step by step", id, at, single[id])
		}
	}
}

// FuzzConservation checks what must hold whatever happens in whatever order.
func FuzzConservation(f *testing.F) {
	f.Add(uint64(1))
	f.Add(uint64(42))
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l := Limits{Sequences: 1 + rng.IntN(8), Tokens: 64 + rng.IntN(512), KV: 2000 + rng.IntN(4000), Block: 16,
			Adapters: 1 + rng.IntN(3), HostAdapter: 3}
		s := New(A100Qwen7B(), l)
		outputs := map[int64]int{}
		finished := map[int64]bool{}
		var now, last time.Duration
		step := func() {
			events := s.Advance(now)
			for _, e := range events {
				if e.At < last || e.At > now {
					t.Fatalf("event at %v, after one at %v, reported at %v", e.At, last, now)
				}
				last = e.At
				if e.Kind == Finished {
					finished[e.ID] = true
				}
			}
			h, n := s.Held(), s.Totals()
			if n.Submitted != n.Finished+n.Aborted+int64(h.Running+h.Waiting) {
				t.Fatalf("submitted %d, finished %d, aborted %d, held %d+%d", n.Submitted, n.Finished, n.Aborted,
					h.Running, h.Waiting)
			}
			if h.Running > l.Sequences || s.reserved > l.KV || len(h.RunningAdapters) > l.Adapters {
				t.Fatalf("beyond a limit: %+v, %d KV tokens reserved, %+v", h, s.reserved, l)
			}
		}
		for id := range int64(60) {
			now += time.Duration(rng.IntN(int(40 * time.Millisecond)))
			step()
			switch rng.IntN(8) {
			case 0:
				s.Abort(now, rng.Int64N(id+1))
			case 1:
				s.Load(now, 1000+id, string(rune('a'+rng.IntN(5))))
			default:
				adapter := []string{"", "a", "b", "c", "d"}[rng.IntN(5)]
				outputs[id] = 1 + rng.IntN(50)
				_ = s.Submit(now, Request{ID: id, Adapter: adapter, Prompt: 1 + rng.IntN(1500), Output: outputs[id]})
			}
		}
		for {
			at, ok := s.Next()
			now = max(now, at)
			step()
			if !ok {
				break
			}
		}
		tokens := int64(0)
		for id := range finished {
			tokens += int64(outputs[id])
		}
		n := s.Totals()
		if h := s.Held(); h.Running+h.Waiting > 0 || s.reserved != 0 || s.private != 0 {
			t.Fatalf("an idle engine holds %+v, %d KV tokens", h, s.reserved)
		}
		if n.Aborted == 0 && n.GenerationTokens != tokens {
			t.Fatalf("%d tokens generated, %d asked for", n.GenerationTokens, tokens)
		}
	})
}

func BenchmarkReferenceCall(b *testing.B) {
	s := New(A100Qwen7B(), limits())
	blocks := make([]Segment, 29)
	now := time.Duration(0)
	for i := range b.N {
		for j := range blocks {
			blocks[j] = Segment{uint64(i<<8 | j), 1}
		}
		for s.Held().Running+s.Held().Waiting >= 512 {
			now, _ = s.Next()
			s.Advance(now)
		}
		_ = s.Submit(now, Request{ID: int64(i), Prompt: 440, Output: 24, Prefix: blocks})
	}
}
