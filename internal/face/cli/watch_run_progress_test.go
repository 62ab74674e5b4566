package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

func aRun() *tablerow.Run {
	v := &tablerow.Run{}
	v.Spec.Name, v.Spec.Steps, v.Spec.Group.Samples = "demo", 12, 6
	v.State, v.NextStep, v.PolicyVersion = runstatus.RunRunning, 3, 3
	v.Buffer = steprecord.BufferCounts{InFlight: 7, Ready: 8, Claimed: 8}
	v.ReadyDepth = 1
	return v
}

// TestLine tells what keeps a run back, and that it learns nothing.
func TestLine(t *testing.T) {
	t.Parallel()
	v := aRun()
	before := changeOf(v)
	v.Throttle, v.RewardVariance = runstatus.ThrottleBytes,
		runstatus.RewardVariance{Groups: 32, ZeroVariance: 30, Collapsed: true}
	if got, want := progressLine(v, noon),
		"no reward variance (30 of 32 groups), throttled by max_bytes"; !strings.Contains(got,
		want) || before == changeOf(v) {
		t.Errorf("%q, want %q as news", got, want)
	}
}

// TestLineSays: each thing that a watcher looks for is on the line when it is there, and not otherwise.
func TestLineSays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		change      func(*tablerow.Run)
		has, hasNot string
	}{
		{"waits", func(v *tablerow.Run) { v.Waits = []api.Wait{{What: "batch", Since: noon}} }, "trainer waits 0s", ""},
		{"something to learn", func(v *tablerow.Run) {
			v.RewardVariance = runstatus.RewardVariance{Groups: 32, ZeroVariance: 3}
		}, "groups", "variance"},
		{"over", func(v *tablerow.Run) { v.State = runstatus.RunCompleted }, "completed", "trainer"},
		{"games", func(*tablerow.Run) {}, "games 42", "prefill"},
		{"games, and more of them", func(v *tablerow.Run) { v.Spec.Group.Oversample = 2 }, "games 56", ""},
		{"the buffer is filled", func(v *tablerow.Run) {
			v.NextStep, v.Buffer.Claimed, v.Spec.Buffer = 0, 0, runspec.BufferSpec{Depth: 2, GroupsPerStep: 8}
		}, "prefill 8 of 16 groups", ""},
		{"the first batch alone", func(v *tablerow.Run) {
			v.NextStep, v.Buffer.Claimed = 0, 0
			v.Spec.Buffer = runspec.BufferSpec{Depth: 2, GroupsPerStep: 9, Prefill: runspec.PrefillBatch}
		}, "prefill 8 of 9 groups", ""},
		{"a version is loaded", func(v *tablerow.Run) {
			v.Policies = []runstatus.Policy{{Version: 3, State: runstatus.PolicyServing},
				{Version: 4, State: runstatus.PolicyLoading, LoadSec: map[rollout.EngineID]float64{"a": 1}}}
		}, "v4 loaded by 1 engines", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := aRun()
			tt.change(v)
			if got := progressLine(v, noon); !strings.Contains(got, tt.has) ||
				tt.hasNot != "" && strings.Contains(got, tt.hasNot) {
				t.Errorf("%s\nwant %q, and no %q", got, tt.has, tt.hasNot)
			}
		})
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

// TestWatchOfDevOutlastsAnOutage: what millrace dev started is followed to its end, after ten minutes in which Redis
// does not answer, too.
func TestWatchOfDevOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		back := time.Now().Add(10 * time.Minute)
		answers := transport(func(*http.Request) (*http.Response, error) {
			status, body := http.StatusOK, strings.Replace(runDocument, `"state":"running"`, `"state":"completed"`, 1)
			if time.Now().Before(back) {
				status, body = http.StatusServiceUnavailable, `{"code":"unavailable","detail":"Redis does not answer"}`
			}
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(body))}, nil
		})
		c, err := NewClient("http://server", "", &http.Client{Transport: answers})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		last, err := c.Watch(t.Context(), "demo", &out)
		if err != nil || last.State != runstatus.RunCompleted || strings.Count(out.String(), "does not answer") != 1 {
			t.Errorf("%v, %s: %s", err, last.State, &out)
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }
