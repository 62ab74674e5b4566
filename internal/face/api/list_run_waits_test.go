package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
)

// waiting is a store that holds one run in a given state.
type waiting struct {
	api.Store
	status   runstatus.RunStatus
	counts   steprecord.BufferCounts
	asked    runstatus.TrainerActivity
	attempts runstatus.AttemptCounts
}

func (*waiting) ID(_ context.Context, name rollout.RunName) (rollout.RunName, error) {
	return name, nil
}

func (w *waiting) Status(context.Context, rollout.RunName) (runstatus.RunStatus, error) {
	return w.status, nil
}

func (w *waiting) Counts(context.Context, rollout.RunName) (steprecord.BufferCounts, error) {
	return w.counts, nil
}

func (w *waiting) TrainerActivity(context.Context, rollout.RunName) (runstatus.TrainerActivity, error) {
	return w.asked, nil
}

func (w *waiting) AttemptCounts(context.Context, rollout.RunName) (runstatus.AttemptCounts, error) {
	return w.attempts, nil
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
		{"games and the queue", func(w *waiting) { w.counts = steprecord.BufferCounts{Queued: 3, InFlight: 5} },
			"dispatch: 3 queued groups; games: 5 groups in flight"},
		{"a trainer at another server", func(w *waiting) {
			w.asked = runstatus.TrainerActivity{Step: 1, First: asked}
			w.counts = steprecord.BufferCounts{Completed: 2, Ready: 1}
		}, "batch: trainer, step 1 (1 ready groups of 2 needed; 0 in flight, 0 queued)"},
		{"an evaluation, whose steps the service completes", func(w *waiting) {
			w.status.Spec.Evaluation.Run = "demo"
			w.asked = runstatus.TrainerActivity{Step: 1, First: asked}
			w.counts = steprecord.BufferCounts{Completed: 2, Ready: 1}
		}, "batch: service, step 1 (1 ready groups of 2 needed; 0 in flight, 0 queued)"},
		{"a trainer that went away", func(w *waiting) {
			w.asked = runstatus.TrainerActivity{Step: 1, First: asked, Last: asked.Add(time.Second)}
		}, "trainer: run"},
		{"a trainer before step 0", func(w *waiting) {
			w.status.NextStep, w.status.Spec.Buffer.Prefill = 0, runspec.PrefillFull
			w.asked = runstatus.TrainerActivity{Step: 0, First: asked}
		}, "batch: trainer, step 0 (0 ready groups of 4 needed; 0 in flight, 0 queued)"},
		{"a record", func(w *waiting) { w.counts.Claimed = 2 }, "record: 2 claimed groups"},
		{"an adapter", func(w *waiting) {
			w.status.Policies = []runstatus.Policy{{Version: 3, State: runstatus.PolicyServing},
				{Version: 4, State: runstatus.PolicyLoading}}
		}, "adapter: policy version 4"},
		{"a trainer that waits for what would become too stale", func(w *waiting) {
			w.status.Spec.Buffer.OnStale = runspec.WaitStale
			w.asked = runstatus.TrainerActivity{Step: 1, First: asked}
			w.counts = steprecord.BufferCounts{Completed: 2, Ready: 2, InFlight: 1}
		}, "batch: trainer, step 1 (2 ready groups of 2 needed; 1 in flight, 0 queued; those in play that would become too " +
			"stale without this batch " +
			"are waited for); games: 1 groups in flight"},
		{"room in a buffer of few bytes", func(w *waiting) {
			w.status.Throttle, w.status.Outstanding, w.status.Spec.Buffer.MaxBytes = runstatus.ThrottleBytes, 2, 1000
			w.counts = steprecord.BufferCounts{Ready: 2, Bytes: 900}
		}, "room: run (room for trajectories: 900 of max_bytes 1000 bytes are stored, 2 of 4 groups are outstanding)"},
		{"room in a fresh buffer", func(w *waiting) {
			w.status.Throttle, w.status.Outstanding, w.status.Spec.Buffer.MaxStaleness = runstatus.ThrottleStaleness, 2, 1
		}, "room: run (a completed step: with max_staleness 1, 2 of 4 groups are outstanding; more would have to " +
			"end too stale)"},
		{"a model that nobody serves", func(w *waiting) {
			w.status.Spec.Model, w.counts.Queued = "n", 2
		}, "model: run (model n is served by no engine; engines serve m; add an engine that serves it (millrace " +
			"engine add URL), " +
			"or stop the run and start one with a model that is served); dispatch: 2 queued groups"},
		{"attempts that all fail", func(w *waiting) {
			w.attempts = runstatus.AttemptCounts{ByCode: []runstatus.FailedAttempts{{Code: "panic", InRow: 31,
				Last: "index out of range"}},
				FailingSince: time.Now().Add(-10 * time.Minute)}
			w.counts.InFlight = 2
		}, "success: run (every game fails: panic 31 times in a row, the first 10 min ago, last: index out of range; " +
			"this is a fault of Millrace: the worker's log has it; please report it; see: millrace events " +
			"demo --code panic); " +
			"games: 2 groups in flight"},
		{"a run that stands still", func(w *waiting) {
			w.asked, w.attempts = runstatus.TrainerActivity{Step: 1, First: asked}, runstatus.AttemptCounts{}
		}, "batch: trainer, step 1 (0 ready groups of 2 needed; 0 in flight, 0 queued); game: run"},
		{"a paused run", func(w *waiting) { w.status.State = runstatus.RunPaused }, "resume: run"},
		{"a run that is over", func(w *waiting) {
			w.status.State = runstatus.RunStopped
			w.counts.InFlight = 4
			w.asked = runstatus.TrainerActivity{Step: 1, First: asked}
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := &waiting{status: runstatus.RunStatus{Spec: spec(), State: runstatus.RunRunning, NextStep: 1},
				attempts: runstatus.AttemptCounts{EndedAt: time.Now()}}
			tt.change(w)
			got := ask(t.Context(), bubbled(t, w, nilEvents{}), "GET", "/v1/runs/demo/waits")
			var list struct{ Waits []api.Wait }
			(&answer{t: t, body: got.Body.Bytes()}).into(&list)
			var lines []string
			for _, wait := range list.Waits {
				line := wait.What + ": " + wait.Owner
				if wait.What == "batch" || wait.What == "room" || wait.What == "model" || wait.What == "success" {
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

// TestAPollTellsWhatItWaitsFor: what the buffer says is missing, which may be more than a number of groups, stands
// in the list of waits and in the answer when the wait is over.
func TestAPollTellsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const missing = "step 0 of run demo waits for 1 groups in play that would become too stale without it"
		store := &scripted{answer: func(rollout.Step, int) (*buffer.RawBatch, error) {
			return nil, rollout.Refuse(rollout.NotReady, missing+"; ask again")
		}}
		s := bubbled(t, store, nilEvents{})
		reason := make(chan string)
		began := time.Now()
		go func() {
			w := ask(t.Context(), s, "POST", "/v1/runs/demo/steps/0/claim?generation=1&wait=30s")
			reason <- w.Header().Get("X-Millrace-Reason")
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		var list struct{ Waits []api.Wait }
		(&answer{t: t, body: ask(t.Context(), s, "GET", "/v1/runs/demo/waits").Body.Bytes()}).into(&list)
		if len(list.Waits) != 1 || list.Waits[0].Detail != missing ||
			!list.Waits[0].Deadline.Equal(began.Add(30*time.Second)) {
			t.Errorf("waits: %+v", list.Waits)
		}
		if got := <-reason; got != missing+"; ask again" {
			t.Errorf("reason %q", got)
		}
	})
}
