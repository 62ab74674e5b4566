package workflows_test

import (
	"errors"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/workflows"
)

// Temporal's clock was ahead for a while: what a run says after that is news all the same.
func TestClockThatWasAhead(t *testing.T) {
	t.Parallel()
	ahead, w := newWorld(t), newWorld(t)
	w.rdb, w.fleet, w.acts.Fleet = ahead.rdb, ahead.fleet, ahead.fleet
	w.buffer = buffer.New(w.rdb, buffer.Options{Now: w.env.Now})
	w.acts.Buffer = w.buffer

	ahead.env.SetStartTime(time.Now().Add(time.Hour))
	ahead.env.SetCurrentHistoryLength(5000)
	ahead.start()
	var cut *workflow.ContinueAsNewError
	if err := ahead.env.GetWorkflowError(); !errors.As(err, &cut) {
		t.Fatalf("the first execution ended with %v", err)
	}
	var in workflows.RunInput
	if err := converter.GetDefaultDataConverter().FromPayloads(cut.Input, &in); err != nil {
		t.Fatal(err)
	}

	w.env.SetStartTime(time.Now())
	mirrored := func() runstatus.RunStatus {
		status, err := w.buffer.Status(t.Context(), "demo")
		if err != nil {
			t.Fatal(err)
		}
		return status
	}
	w.at(time.Minute, func() {
		w.update(workflows.UpdateChange, spec.Pause(true), func(_ any, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	})
	w.at(2*time.Minute, func() {
		if state := mirrored().State; state != runstatus.RunPaused {
			t.Errorf("a run that was paused is %s", state)
		}
	})
	w.stopAt(3 * time.Minute)
	w.env.ExecuteWorkflow(workflows.Run, in)
	if state := mirrored().State; state != runstatus.RunStopped {
		t.Errorf("a run that was stopped is %s", state)
	}
}
