package enginemodel

import (
	"errors"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
)

func continuousLimits() batch.Limits {
	return batch.Limits{Sequences: 8, Tokens: 1000, KV: 10_000, Block: 16, Adapters: 2, HostAdapter: 4}
}

// untilIdle lets an engine work until it has nothing left, and returns what happened.
func untilIdle(e Engine) []Event {
	var all []Event
	for at, ok := e.Next(); ok; at, ok = e.Next() {
		all = append(all, e.Advance(at)...)
	}
	return all
}

// TestContinuousIsTheSimulatedEngine: the same calls end when they end in the scheduler of the simulated engine.
func TestContinuousIsTheSimulatedEngine(t *testing.T) {
	t.Parallel()
	e, s := NewContinuous(batch.A100Qwen7B(), continuousLimits(), 1), batch.New(batch.A100Qwen7B(), continuousLimits())
	want := map[uint64]time.Duration{}
	got := map[uint64]time.Duration{}
	collect := func(now time.Duration) {
		for _, ev := range e.Advance(now) {
			got[ev.ID] = ev.At
		}
		events := s.Advance(now)
		for _, ev := range events {
			if ev.Kind == batch.Finished {
				want[uint64(ev.ID)] = ev.At
			}
		}
	}
	for id := range uint64(40) {
		now := time.Duration(id) * 37 * time.Millisecond
		collect(now)
		prompt, output := 100+int(id*97%900), 1+int(id*31%50)
		if err := e.Submit(now, []Call{{ID: id, Adapter: "v1", Prompt: prompt, Output: output}}); err != nil {
			t.Fatal(err)
		}
		_ = s.Submit(now, batch.Request{ID: int64(id), Adapter: "v1", Prompt: prompt, Output: output})
	}
	collect(time.Hour)
	if len(got) != 40 || len(want) != 40 {
		t.Fatalf("%d and %d calls ended", len(got), len(want))
	}
	for id, at := range want {
		if got[id] != at {
			t.Errorf("call %d ended at %v, want %v", id, got[id], at)
		}
	}
	totals, stats := s.Totals(), e.Stats()
	if stats.Output != totals.GenerationTokens || stats.Prompt != totals.PromptTokens || stats.Busy != totals.Busy {
		t.Errorf("stats %+v, want those of %+v", stats, totals)
	}
}

// TestSharedPrefixes: how many prompt tokens of the second call are found in the cache, after the first has ended.
// Blocks have 16 tokens.
func TestSharedPrefixes(t *testing.T) {
	t.Parallel()
	system, group, game := Prefix{1, 200}, Prefix{2, 330}, Prefix{3, 460}
	for _, tt := range []struct {
		name          string
		first, second Call
		want          int
	}{
		{"nothing", Call{Prompt: 400}, Call{Prompt: 400}, 0},
		{"whole blocks of the system prompt", Call{Prompt: 400, Shared: []Prefix{system}},
			Call{Prompt: 500, Shared: []Prefix{system}}, 192},
		{"the longest that both have", Call{Prompt: 500, Shared: []Prefix{system, group}},
			Call{Prompt: 500, Shared: []Prefix{system, group, game}}, 320},
		{"up to the first that differs", Call{Prompt: 500, Shared: []Prefix{system, group}},
			Call{Prompt: 500, Shared: []Prefix{system, {9, 330}}}, 192},
		{"of another adapter", Call{Adapter: "v1", Prompt: 400, Shared: []Prefix{system}},
			Call{Adapter: "v2", Prompt: 400, Shared: []Prefix{system}}, 0},
		{"of the same adapter", Call{Adapter: "v1", Prompt: 400, Shared: []Prefix{system}},
			Call{Adapter: "v1", Prompt: 400, Shared: []Prefix{system}}, 192},
		{"the earlier answer", Call{Prompt: 400, Output: 60, Shared: []Prefix{system, game}},
			Call{Prompt: 600, Shared: []Prefix{system, game}}, 448},
		{"not the whole prompt: its last token is computed", Call{Prompt: 192, Shared: []Prefix{system}},
			Call{Prompt: 192, Shared: []Prefix{system}}, 176},
		{"a prefix longer than prompt and answer", Call{Prompt: 100, Output: 10, Shared: []Prefix{system}},
			Call{Prompt: 400, Shared: []Prefix{system}}, 96},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := NewContinuous(batch.A100Qwen7B(), continuousLimits(), 1)
			now := time.Duration(0)
			cached := 0
			for id, call := range []Call{tt.first, tt.second} {
				call.ID, call.Output = uint64(id), max(call.Output, 1)
				if err := e.Submit(now, []Call{call}); err != nil {
					t.Fatal(err)
				}
				for _, ev := range untilIdle(e) {
					now, cached = ev.At, ev.Cached
				}
			}
			if cached != tt.want {
				t.Errorf("%d tokens are cached, want %d", cached, tt.want)
			}
		})
	}
}

// TestARetryFindsItsOwnPrompt: as a live engine does, for the tokens are the same.
func TestARetryFindsItsOwnPrompt(t *testing.T) {
	t.Parallel()
	e := NewContinuous(batch.A100Qwen7B(), continuousLimits(), 1)
	for i := range 2 {
		now := time.Duration(i) * time.Hour
		if err := e.Submit(now, []Call{{ID: 7, Prompt: 400, Output: 100}}); err != nil {
			t.Fatal(err)
		}
		if i == 0 && !e.Abort(now+50*time.Millisecond, 7) {
			t.Fatal("the call is not there")
		}
	}
	if events := untilIdle(e); len(events) != 1 || events[0].Cached != 384 {
		t.Errorf("events %+v", events)
	}
}

func TestTimeFactorAndSlowness(t *testing.T) {
	t.Parallel()
	end := func(factor, slow float64) time.Duration {
		e := NewContinuous(batch.A100Qwen7B(), continuousLimits(), factor)
		e.SetSlow(0, slow)
		if err := e.Submit(0, []Call{{ID: 1, Prompt: 440, Output: 2000}}); err != nil {
			t.Fatal(err)
		}
		events := untilIdle(e)
		return events[len(events)-1].At
	}
	plain := end(1, 1)
	for _, tt := range []struct{ factor, slow float64 }{{0, 1}, {1.0 / 30, 1}, {1, 3}, {1.0 / 30, 3}, {1.0 / 1000, 1}} {
		want := plain.Seconds() * max(tt.factor, 0) * tt.slow
		if tt.factor == 0 {
			want = plain.Seconds()
		}
		if got := end(tt.factor, tt.slow).Seconds(); got < want*0.9999 || got > want*1.0001 {
			t.Errorf("time factor %.4f, slowness %.0f: %.6f s, want %.6f s", tt.factor, tt.slow, got, want)
		}
	}
}

func TestCallsThatNeverFit(t *testing.T) {
	t.Parallel()
	e := NewContinuous(batch.A100Qwen7B(), continuousLimits(), 1)
	err := e.Submit(0, []Call{{ID: 1, Prompt: 10, Output: 1}, {ID: 2, Prompt: 9990, Output: 11}})
	if !errors.Is(err, batch.ErrTooLong) {
		t.Errorf("got %v", err)
	}
	if _, ok := e.Next(); ok || e.Stats().Running+e.Stats().Waiting > 0 {
		t.Error("a part of the batch was taken")
	}
}

func TestLoadsAreReported(t *testing.T) {
	t.Parallel()
	e := NewContinuous(batch.A100Qwen7B(), continuousLimits(), 1)
	e.Load(time.Second, 5, "v1")
	cost := batch.A100Qwen7B()
	want := Event{At: time.Second + cost.AdapterRead + cost.AdapterCopy, ID: 5, Kind: Loaded}
	if events := untilIdle(e); len(events) != 1 || events[0] != want {
		t.Errorf("events %+v, want %+v", events, want)
	}
}
