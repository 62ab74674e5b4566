package diagnosis_test

import (
	"math"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// A bound that admits fewer batches than the depth asks for is named, the step time follows from it, and the
// what-ifs raise the bound and not only the depth. Games of 600 s, a trainer of 150 s, depth 4: enough to hide
// them, if it were granted.
func TestThrottle(t *testing.T) {
	t.Parallel()
	deep := func(m *simRun) { m.depth, m.steps = 4, 24 }
	for _, tt := range []struct {
		name   string
		run    simRun
		step   float64
		cause  string // what the candidate says
		helps  string // a what-if that helps
		to     float64
		futile string // one that does not
		next   string
		kind   diagnosis.RegimeKind
	}{
		{"staleness of one version", with(latencyCase(), deep, func(m *simRun) { m.bounded, m.stale = true, 1 }), 375,
			"max_staleness 1 lets 1 of the 4 batches", "max_staleness 1 -> 4", 150, "depth 4 -> 5", "buffer.max_staleness=4",
			diagnosis.LatencyBound},
		{"staleness of two versions", with(latencyCase(), deep, func(m *simRun) { m.bounded, m.stale = true, 2 }), 250,
			"max_staleness 2 lets 2 of the 4 batches", "max_staleness 2 -> 3", 187.5, "depth 4 -> 5", "buffer.max_staleness=4",
			diagnosis.LatencyBound},
		{"no staleness at all", with(latencyCase(), deep, func(m *simRun) { m.bounded = true }), 750,
			"buffer.max_staleness is 0", "max_staleness 0 -> 1", 375, "depth 4 -> 5", "buffer.max_staleness=4",
			diagnosis.UndecidedRegime},
		{"bytes", with(latencyCase(), deep, func(m *simRun) { m.fits = 32 }), 300,
			"buffer.max_bytes (1 GiB) has room for 2 batches outstanding, of the 4", "max_bytes 1 GiB -> 2 GiB", 150,
			"depth 4 -> 5", "buffer.max_bytes=2048MiB", diagnosis.LatencyBound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := diagnosis.Diagnose(tt.run.input())
			page := text(t, r)
			if math.Abs(r.Regime.StepSec/tt.step-1) > 0.02 || r.Regime.Kind != tt.kind ||
				r.Findings[0].Cause != diagnosis.CauseThrottle {
				t.Errorf("%s, %v s, want latency-bound at %v s by a throttle\n%s", r.Regime.Kind, r.Regime.StepSec, tt.step, page)
			}
			if !strings.Contains(cause(r, diagnosis.CauseThrottle).Text, tt.cause) ||
				cause(r, diagnosis.CauseThrottle).Decision != diagnosis.IsCause {
				t.Errorf("throttle: %+v", cause(r, diagnosis.CauseThrottle))
			}
			if w := whatIf(r, tt.helps); w.Outcome != diagnosis.Helps || math.Abs(w.StepSec/tt.to-1) > 0.02 {
				t.Errorf("%s: %+v\n%s", tt.helps, w, page)
			}
			if w := whatIf(r, tt.futile); w.Outcome != diagnosis.HelpsNot || w.Command != "" || w.Note == "" {
				t.Errorf("%s: %+v\n%s", tt.futile, w, page)
			}
			if !strings.Contains(r.Next[0], tt.next) {
				t.Errorf("next: %q, want %s", r.Next, tt.next)
			}
		})
	}
}

// Where nothing is held back, no bound is blamed: neither one that is just large enough, nor one that does not bind.
func TestNoThrottle(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		run    simRun
		change func(*diagnosis.Input)
	}{
		{"staleness as large as the depth", with(latencyCase(), func(m *simRun) { m.bounded, m.stale = true, 2 }), nil},
		{"bytes for all of it", with(latencyCase(), func(m *simRun) { m.fits = 32 }), nil},
		{"stale games are trained on", with(latencyCase(), func(m *simRun) { m.depth = 3 }), func(in *diagnosis.Input) {
			in.Spec.Buffer.OnStale, in.Spec.Buffer.MaxStaleness = runspec.KeepStale, 0
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := tt.run.input()
			if tt.change != nil {
				tt.change(&in)
			}
			r := diagnosis.Diagnose(in)
			if c := cause(r, diagnosis.CauseThrottle); c.Name != "" || r.Findings[0].Cause != diagnosis.CauseLatency {
				t.Errorf("%s, throttle: %+v\n%s", r.Findings[0].Cause, c, text(t, r))
			}
		})
	}
}

// A batch that is complete and held all the same waits for what would become too stale.
func TestStaleWait(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		onStale runspec.OnStale
		spare   int64 // groups ready beyond the batch
		want    diagnosis.Decision
	}{
		{"held", runspec.WaitStale, 3, diagnosis.IsCause},
		{"not complete before", runspec.WaitStale, 0, ""},
		{"stale games are dropped", runspec.DropStale, 3, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := latencyCase().input()
			in.Spec.Buffer.OnStale = tt.onStale
			for i := range in.Records {
				v := &in.Records[i].Service
				v.AtClaim.Ready = int64(v.GroupsPerStep) + tt.spare
			}
			r := diagnosis.Diagnose(in)
			if got := cause(r, diagnosis.CauseStaleWait); got.Decision != tt.want {
				t.Errorf("%+v, want %q\n%s", got, tt.want, text(t, r))
			}
		})
	}
}

// Depth beyond what staleness admits needs both; where stale games are kept, it needs nothing else.
func TestDepthAndStaleness(t *testing.T) {
	t.Parallel()
	in := with(latencyCase(), func(m *simRun) { m.bounded, m.stale = true, 2 }).input()
	if w := whatIf(diagnosis.Diagnose(in), "depth 2 -> 3"); !w.Staler ||
		!strings.Contains(w.Command, "buffer.depth=3 buffer.max_staleness=3") {
		t.Errorf("bounded: %+v", w)
	}
	in.Spec.Buffer.OnStale = runspec.KeepStale
	if w := whatIf(diagnosis.Diagnose(in), "depth 2 -> 3"); w.Staler || strings.Contains(w.Command, "staleness") {
		t.Errorf("kept: %+v", w)
	}
}
