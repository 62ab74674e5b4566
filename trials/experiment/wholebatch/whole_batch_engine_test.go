package wholebatch

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// newWholeBatch is an engine that takes a second per token of a batch's longest request.
func newWholeBatch(t *testing.T, cfg WholeBatchConfig) *WholeBatch {
	t.Helper()
	if cfg.Time == nil {
		cfg.Time = LongestTime(1)
	}
	w, err := NewWholeBatch(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func calls(lengths ...int) []enginemodel.Call {
	var out []enginemodel.Call
	for i, l := range lengths {
		out = append(out, enginemodel.Call{ID: uint64(100*l + i), Prompt: l - 1, Output: 1})
	}
	return out
}

// ends is when the batches that are submitted at these times end, the last call of each.
func ends(t *testing.T, w *WholeBatch, at []time.Duration, batches [][]enginemodel.Call) []time.Duration {
	t.Helper()
	end := map[uint64]time.Duration{}
	note := func(events []enginemodel.Event) {
		for _, ev := range events {
			end[ev.ID] = ev.At
		}
	}
	for i, b := range batches {
		note(w.Advance(at[i]))
		if err := w.Submit(at[i], b); err != nil {
			t.Fatal(err)
		}
	}
	for {
		next, ok := w.Next()
		if !ok {
			break
		}
		note(w.Advance(next))
	}
	var out []time.Duration
	for _, b := range batches {
		out = append(out, end[b[len(b)-1].ID])
	}
	return out
}

// TestWholeBatchTakesItsLongest is the example of the multi-bin paper: requests of 1, 5, 2 and 6 s in batches of two
// take 11 s in order of arrival, 8 s when alike ones are together.
func TestWholeBatchTakesItsLongest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		batches [][]enginemodel.Call
		want    time.Duration
		padding float64
	}{
		{"in order", [][]enginemodel.Call{calls(1, 5), calls(2, 6)}, 11 * time.Second, 1 - 14.0/22},
		{"alike together", [][]enginemodel.Call{calls(1, 2), calls(5, 6)}, 8 * time.Second, 1 - 14.0/16},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWholeBatch(t, WholeBatchConfig{})
			got := ends(t, w, make([]time.Duration, 2), tt.batches)
			if slices.Max(got) != tt.want {
				t.Errorf("ended at %v, want %v", slices.Max(got), tt.want)
			}
			st := w.Stats()
			if padding := 1 - float64(w.Useful)/float64(w.Padded); math.Abs(padding-tt.padding) > 1e-12 {
				t.Errorf("padding %v, want %v", padding, tt.padding)
			}
			if st.Busy != tt.want || st.Prompt+st.Output != 14 {
				t.Errorf("busy %v of %v, %d tokens of 14", st.Busy, tt.want, st.Prompt+st.Output)
			}
		})
	}
}

// TestWorkersShareCores: two copies of a model on the cores of one take turns in effect, and contention adds to it.
func TestWorkersShareCores(t *testing.T) {
	t.Parallel()
	second := time.Second
	for _, tt := range []struct {
		name string
		cfg  WholeBatchConfig
		want []time.Duration
	}{
		{"one worker, one after the other", WholeBatchConfig{}, []time.Duration{4 * second, 6 * second}},
		{"two with cores for both", WholeBatchConfig{Workers: 2}, []time.Duration{4 * second, 2 * second}},
		{"two that share", WholeBatchConfig{Workers: 2, Cores: 1}, []time.Duration{6 * second, 4 * second}},
		{"two that share half", WholeBatchConfig{Workers: 2, Cores: 3, CoresPerWorker: 2},
			[]time.Duration{4*second + 2*second/3, 8 * second / 3}},
		{"two that disturb each other", WholeBatchConfig{Workers: 2, Cores: 1, Contention: 0.5},
			[]time.Duration{8 * second, 6 * second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := ends(t, newWholeBatch(t, tt.cfg), make([]time.Duration, 2), [][]enginemodel.Call{calls(4), calls(2)})
			for i := range got {
				if d := got[i] - tt.want[i]; d < -1 || d > 1 {
					t.Errorf("batch %d ended at %v, want %v", i, got[i], tt.want[i])
				}
			}
		})
	}
}

// TestRoundingsDoNotAddUp: a thousand batches of a third of a second, each submitted when the one before ends, end
// within half a nanosecond of where they should.
func TestRoundingsDoNotAddUp(t *testing.T) {
	t.Parallel()
	w := newWholeBatch(t, WholeBatchConfig{Time: LinearTime{PerBatch: 1.0 / 3}})
	now := time.Duration(0)
	for i := range 1000 {
		if err := w.Submit(now, []enginemodel.Call{{ID: uint64(i), Output: 1}}); err != nil {
			t.Fatal(err)
		}
		now, _ = w.Next()
		w.Advance(now)
		if want := time.Duration(math.Round(float64(i+1) * 1e9 / 3)); now != want {
			t.Fatalf("batch %d ended at %d ns, want %d", i, now, want)
		}
	}
}

func TestWholeBatchAborts(t *testing.T) {
	t.Parallel()
	w := newWholeBatch(t, WholeBatchConfig{})
	for _, batch := range [][]enginemodel.Call{calls(4, 2), calls(3)} {
		if err := w.Submit(0, batch); err != nil {
			t.Fatal(err)
		}
	}
	if !w.Abort(time.Second, 400) || w.Abort(time.Second, 400) {
		t.Error("a call is there once")
	}
	if at, _ := w.Next(); at != 4*time.Second {
		t.Errorf("the batch whose longest request was aborted ends at %v, want 4s", at)
	}
	w.Abort(2*time.Second, 201)
	if at, _ := w.Next(); at != 5*time.Second {
		t.Errorf("with the first batch gone at 2s the second ends at %v, want 5s", at)
	}
}

func TestWholeBatchRefuses(t *testing.T) {
	t.Parallel()
	w := newWholeBatch(t, WholeBatchConfig{MaxBatch: 2, Time: LinearTime{PerBatch: 1}})
	for _, tt := range []struct {
		name  string
		calls []enginemodel.Call
	}{
		{"too many", calls(200, 200, 200)},
	} {
		if err := w.Submit(0, tt.calls); err == nil {
			t.Errorf("%s: accepted", tt.name)
		}
	}
	if st := w.Stats(); st.Running+st.Waiting != 0 {
		t.Errorf("a refused batch is in the engine: %+v", st)
	}
	if _, err := NewWholeBatch(WholeBatchConfig{}); err == nil {
		t.Error("an engine without a batch time was made")
	}
}

// FuzzWholeBatch: whatever is submitted and aborted, every call ends or is aborted once, time does not run back, the
// engine is busy no longer than time passed, and how often it is asked changes nothing.
func FuzzWholeBatch(f *testing.F) {
	f.Add(uint64(1), uint8(1))
	f.Add(uint64(7), uint8(3))
	f.Fuzz(func(t *testing.T, seed uint64, workers uint8) {
		cfg := WholeBatchConfig{Time: Seed003Time(), Workers: int(workers%4) + 1, Cores: float64(seed % 3)}
		often, seldom := newWholeBatch(t, cfg), newWholeBatch(t, cfg)
		rng := virtualtime.NewRandom(seed, "whole batch")
		held := map[uint64]bool{}
		now, last, id := time.Duration(0), time.Duration(0), uint64(0)
		var ends [2][]enginemodel.Event
		for range 60 {
			now += time.Duration(rng.Exponential() * 0.2 * 1e9)
			ends[0] = append(ends[0], often.Advance(now)...)
			if rng.Float64() < 0.2 && id > 0 {
				victim := uint64(rng.IntN(int(id)))
				a, b := often.Abort(now, victim), seldom.Abort(now, victim)
				if a != b || a && !held[victim] {
					t.Fatalf("abort of %d: %v and %v, held %v", victim, a, b, held[victim])
				}
				if a {
					delete(held, victim)
				}
				continue
			}
			var batch []enginemodel.Call
			for range 1 + rng.IntN(5) {
				batch = append(batch, enginemodel.Call{ID: id, Prompt: rng.IntN(500), Output: 1 + rng.IntN(500)})
				held[id] = true
				id++
			}
			for _, w := range []*WholeBatch{often, seldom} {
				if err := w.Submit(now, batch); err != nil {
					t.Fatal(err)
				}
			}
		}
		for at, ok := often.Next(); ok; at, ok = often.Next() {
			ends[0] = append(ends[0], often.Advance(at)...)
			now = max(now, at)
		}
		ends[1] = append(ends[1], seldom.Advance(now)...)
		if !slices.Equal(ends[0], ends[1]) {
			t.Fatalf("asked often: %v\nasked once: %v", ends[0], ends[1])
		}
		for _, ev := range ends[0] {
			if !held[ev.ID] || ev.At < last {
				t.Fatalf("event %+v after %v, held %v", ev, last, held[ev.ID])
			}
			delete(held, ev.ID)
			last = ev.At
		}
		if len(held) > 0 {
			t.Fatalf("never ended: %v", held)
		}
		if st := often.Stats(); st.Busy > now || often.Useful > often.Padded || st.Running+st.Waiting+st.KV != 0 {
			t.Fatalf("at %v: %+v", now, st)
		}
	})
}
