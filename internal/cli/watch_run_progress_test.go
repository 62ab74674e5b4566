package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

func view() runView {
	var v runView
	v.Spec.Name, v.Spec.Steps, v.Spec.Group.Samples = "demo", 12, 6
	v.State, v.NextStep, v.PolicyVersion = rollout.RunRunning, 3, 3
	v.Buffer = rollout.BufferCounts{InFlight: 7, Ready: 8, Claimed: 8}
	v.ReadyDepth = 1
	return v
}

// TestPaint paints over what was there: no line is left over, and none wraps, or the next painting would begin too low.
func TestPaint(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{w: &out, repaint: true}
	p.paint([]string{"one", "two", "three"})
	out.Reset()
	p.paint([]string{"four"})
	if want := "\x1b[?7l\x1b[3Afour\x1b[K\n\x1b[J\x1b[?7h"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestPanel(t *testing.T) {
	t.Parallel()
	v := view()
	p := &progress{}
	for _, tt := range []struct {
		name   string
		change func(*runView)
		has    string
		hasNot string
	}{
		{"works", func(*runView) {}, "trainer  works on step 3", "engines"},
		{"waits", func(v *runView) {
			v.Waits = []wait{{What: "batch", Since: noon, Detail: "8 of 16 groups"}}
		}, "trainer  waits 0s for a batch: 8 of 16 groups", ""},
		{"no trainer", func(v *runView) { v.Buffer.Claimed = 0 }, "trainer  is not heard of", ""},
		{"throttled", func(v *runView) { v.Throttle, v.Spec.Buffer.MaxStaleness = rollout.ThrottleStaleness, 1 },
			"throttle launches no more until a step is completed: buffer.max_staleness 1", "variance"},
		{"nothing to learn", func(v *runView) {
			v.RewardVariance = rollout.RewardVariance{Groups: 32, ZeroVariance: 30, Collapsed: true}
		},
			"variance 30 of the last 32 groups had equal rewards: nothing to learn", "throttle"},
		{"something to learn", func(v *runView) {
			v.RewardVariance = rollout.RewardVariance{Groups: 32, ZeroVariance: 3}
		}, "groups", "variance"},
		{"over", func(v *runView) { v.State = rollout.RunCompleted }, "completed", "trainer"},
		{"games", func(*runView) {}, "games    42 in flight", ""},
		{"games, and more of them", func(v *runView) { v.Spec.Group.Oversample = 2 }, "games    56 in flight", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := v
			tt.change(&v)
			got := strings.Join(p.panel(v, noon), "\n")
			if !strings.Contains(got, tt.has) || tt.hasNot != "" && strings.Contains(got, tt.hasNot) {
				t.Errorf("%s\nwant %q, and no %q", got, tt.has, tt.hasNot)
			}
		})
	}
}

// TestLine tells a log what a panel shows: what keeps a run back, and that it learns nothing.
func TestLine(t *testing.T) {
	t.Parallel()
	v := view()
	p := &progress{}
	before := changeOf(v)
	v.Throttle, v.RewardVariance = rollout.ThrottleBytes,
		rollout.RewardVariance{Groups: 32, ZeroVariance: 30, Collapsed: true}
	if got, want := p.line(v, noon), "no reward variance (30 of 32 groups), throttled by max_bytes"; !strings.Contains(got,
		want) || before == changeOf(v) {
		t.Errorf("%q, want %q as news", got, want)
	}
}

// TestWatchEnds follows a run to its end, a line per change, and answers with its last status.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	over := strings.Replace(runDocument, `"state":"running"`, `"state":"completed"`, 1)
	got, _ := command(t, map[string]reply{"GET /v1/runs/demo": {200, over}}, "", nil, "run", "watch", "demo")
	if got.err != nil ||
		!strings.HasPrefix(got.stdout, "12:00:00  step 3/12 v3  groups queued 1, in flight 7, ready 8, claimed 8") ||
		strings.Count(got.stdout, "\n") != 1 {
		t.Errorf("%v, %q", got.err, got.stdout)
	}
}

// TestWatchInterrupted tells an interruption from a failure.
func TestWatchInterrupted(t *testing.T) {
	t.Parallel()
	c, err := NewClient("http://127.0.0.1:1", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Watch(ctx, "demo", &bytes.Buffer{}); ExitCode(err) != ExitInterrupted {
		t.Errorf("%v", err)
	}
}
