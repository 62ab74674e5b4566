package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/api"
	"github.com/millrace/millrace/internal/rollout"
)

// waiting is a store that holds one run in a given state.
type waiting struct {
	api.Store
	status rollout.RunStatus
	counts rollout.BufferCounts
	asked  map[rollout.Step]time.Time
}

func (w *waiting) Status(context.Context, rollout.RunName) (rollout.RunStatus, error) {
	return w.status, nil
}

func (w *waiting) Counts(context.Context, rollout.RunName) (rollout.BufferCounts, error) {
	return w.counts, nil
}

func (w *waiting) Step(_ context.Context, _ rollout.RunName, step rollout.Step) (rollout.StepRecord, error) {
	at, ok := w.asked[step]
	if !ok {
		return rollout.StepRecord{}, rollout.Refuse(rollout.NoSuchStep, "no such step")
	}
	return rollout.StepRecord{Step: step, Service: rollout.ServiceView{FirstAskedAt: at}}, nil
}

func TestWaitsHaveOwners(t *testing.T) {
	t.Parallel()
	asked := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		name   string
		change func(*waiting)
		want   string
	}{
		{"nothing", func(*waiting) {}, ""},
		{"games and the queue", func(w *waiting) { w.counts = rollout.BufferCounts{Queued: 3, InFlight: 5} },
			"dispatch: 3 queued groups; games: 5 groups in flight"},
		{"a trainer at another server", func(w *waiting) {
			w.asked = map[rollout.Step]time.Time{1: asked}
			w.counts = rollout.BufferCounts{Completed: 2, Ready: 1}
		}, "batch: trainer, step 1 (1 ready groups of 2 needed; 0 in flight, 0 queued)"},
		{"a trainer before step 0", func(w *waiting) {
			w.status.NextStep, w.status.Spec.Buffer.Prefill = 0, rollout.PrefillFull
			w.asked = map[rollout.Step]time.Time{0: asked}
		}, "batch: trainer, step 0 (0 ready groups of 4 needed; 0 in flight, 0 queued)"},
		{"a record", func(w *waiting) { w.counts.Claimed = 2 }, "record: 2 claimed groups"},
		{"an adapter", func(w *waiting) {
			w.status.Policies = []rollout.Policy{{Version: 3, State: rollout.PolicyServing}, {Version: 4, State: rollout.PolicyLoading}}
		}, "adapter: policy version 4"},
		{"a paused run", func(w *waiting) { w.status.State = rollout.RunPaused }, "resume: run"},
		{"a run that is over", func(w *waiting) {
			w.status.State = rollout.RunStopped
			w.counts.InFlight = 4
			w.asked = map[rollout.Step]time.Time{1: asked}
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := &waiting{status: rollout.RunStatus{Spec: spec(), State: rollout.RunRunning, NextStep: 1}}
			tt.change(w)
			got := ask(t.Context(), bubbled(t, w, nilEvents{}), "GET", "/v1/runs/demo/waits")
			var list struct{ Waits []api.Wait }
			(&answer{t: t, body: got.Body.Bytes()}).into(&list)
			var lines []string
			for _, wait := range list.Waits {
				line := wait.What + ": " + wait.Owner
				if wait.What == "batch" {
					line += fmt.Sprintf(" (%s)", wait.Detail)
				}
				if wait.Detail == "" {
					t.Errorf("%s does not say what would end it", line)
				}
				lines = append(lines, line)
			}
			if strings.Join(lines, "; ") != tt.want {
				t.Errorf("got  %s\nwant %s", strings.Join(lines, "; "), tt.want)
			}
		})
	}
}
