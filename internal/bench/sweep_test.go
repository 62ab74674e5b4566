package bench

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// measuredSweep is a sweep of two windows and two batch sizes over four rounds whose makespans are made up: rounds
// differ much, a batch of 8 halves the time, and the window does nothing.
func measuredSweep(rounds int) SweepResult {
	cfg := DefaultSweepConfig()
	cfg.Windows = []time.Duration{5 * time.Millisecond, 50 * time.Millisecond}
	cfg.MaxBatches = []int{2, 8}
	cfg.Orders = []rollout.DispatchOrder{rollout.ArrivalOrder}
	cfg.Trials = rounds
	cells := cfg.cells()
	trials := make([][]sweepTrial, len(cells))
	for i, cell := range cells {
		for round := range rounds {
			makespan := []float64{10, 14, 8, 11}[round]
			if cell.MaxBatch == 8 {
				makespan /= 2
			}
			makespan *= 1 + 0.01*math.Sin(float64(7*i+3*round)) // noise
			trials[i] = append(trials[i], sweepTrial{latencies: []float64{makespan / 2, makespan}, makespan: makespan,
				output: 512, calls: 4})
		}
	}
	return newSweepResult(cfg, "m", cells, trials)
}

func TestSweepTellsEffectFromNoise(t *testing.T) {
	t.Parallel()
	verdicts := map[string]string{}
	for _, e := range measuredSweep(4).Effects {
		if e.Measure == "makespan" {
			verdicts[e.Setting+" "+e.Level] = e.verdict()
		}
	}
	want := map[string]string{"window 50 ms": "within noise", "max batch 8": "faster"}
	if len(verdicts) != len(want) {
		t.Fatalf("got %v, want %v", verdicts, want)
	}
	for what, verdict := range want {
		if verdicts[what] != verdict {
			t.Errorf("%s: %q, want %q", what, verdicts[what], verdict)
		}
	}
	for _, e := range measuredSweep(1).Effects {
		if e.verdict() != "not known: one trial" {
			t.Errorf("one trial, and the verdict %q", e.verdict())
		}
	}
}

// TestSweepRow: p50 is a request's and not the makespan.
func TestSweepRow(t *testing.T) {
	t.Parallel()
	row := sweepRow(SweepCell{Window: 5 * time.Millisecond, MaxBatch: 2, Order: rollout.ArrivalOrder}, []sweepTrial{
		{latencies: []float64{1, 2, 3, 4}, makespan: 4, output: 400, calls: 2},
		{latencies: []float64{3, 4, 5, 6}, makespan: 6, output: 300, calls: 4},
	})
	for what, got := range map[string][2]float64{
		"p50": {row.P50Sec.Mean, 3.5}, "p95": {row.P95Sec.Mean, 4.85}, "makespan": {row.MakespanSec.Mean, 5},
		"tokens per second": {row.OutputTPS.Mean, 75}, "calls": {row.Calls, 3},
	} {
		if math.Abs(got[0]-got[1]) > 1e-12 {
			t.Errorf("%s: got %g, want %g", what, got[0], got[1])
		}
	}
}

func TestSweepRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*SweepConfig)
		want   string
	}{
		{"no window", func(c *SweepConfig) { c.Windows = nil }, "at least one window"},
		{"negative window", func(c *SweepConfig) { c.Windows = []time.Duration{-1} }, "negative"},
		{"twice the same", func(c *SweepConfig) { c.MaxBatches = []int{4, 4} }, "given twice"},
		{"unknown order", func(c *SweepConfig) { c.Orders = []rollout.DispatchOrder{"random"} }, `"random"`},
		{"no trial", func(c *SweepConfig) { c.Trials = 0 }, "trials: 0"},
		{"fast real engine", func(c *SweepConfig) { c.URLs, c.Speed = []string{"http://x"}, 2 }, "speed 1"},
		{"no tokens", func(c *SweepConfig) { c.OutputTokens = []int{0} }, "output tokens"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultSweepConfig()
			tt.change(&cfg)
			if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if err := DefaultSweepConfig().Validate(); err != nil {
		t.Error(err)
	}
}

// TestSweepOfSimulatedEngines: every answer has all its tokens, batches are as large as allowed, and the report says
// so in both forms.
func TestSweepOfSimulatedEngines(t *testing.T) {
	t.Parallel()
	cfg := DefaultSweepConfig()
	cfg.Speed, cfg.Trials, cfg.Warmup = 50, 2, 0
	cfg.Windows = []time.Duration{10 * time.Second} // a batch that is full does not wait for its end
	cfg.MaxBatches = []int{0, 4}
	cfg.Orders = []rollout.DispatchOrder{rollout.ArrivalOrder}
	cfg.OutputTokens = []int{4, 12}
	res, err := Sweep(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, calls := range []float64{8, 2} {
		if row := res.Rows[i]; row.Calls != calls || row.Tokens != 4*4+4*12 || row.P95Sec.Mean < row.P50Sec.Mean {
			t.Errorf("%+v: want %g calls for 64 tokens", row, calls)
		}
	}
	var text bytes.Buffer
	if err := res.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"MAKESPAN s", "max batch", "drift"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table does not say %q:\n%s", want, &text)
		}
	}
	if doc, err := json.Marshal(res); err != nil || !bytes.HasPrefix(doc, []byte("{")) {
		t.Errorf("%v: %s", err, doc)
	}
}
