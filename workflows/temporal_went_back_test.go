package workflows_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/workflows"
)

// cut has the execution under way end with its state, which the next one gets.
func (w *world) cut() workflows.RunInput {
	w.t.Helper()
	var cut *workflow.ContinueAsNewError
	if err := w.env.GetWorkflowError(); !errors.As(err, &cut) {
		w.t.Fatalf("the execution ended with %v, want it cut", err)
	}
	var in workflows.RunInput
	if err := converter.GetDefaultDataConverter().FromPayloads(cut.Input, &in); err != nil {
		w.t.Fatal(err)
	}
	return in
}

// after is a world with the Redis, fleet and adapters of another.
func (w *world) after(earlier *world) *world {
	w.rdb, w.fleet, w.acts.Fleet = earlier.rdb, earlier.fleet, earlier.fleet
	w.buffer = buffer.New(w.rdb, buffer.Options{Now: w.env.Now})
	w.acts.Buffer, w.spec, w.generation = w.buffer, earlier.spec, earlier.generation
	w.env.SetStartTime(time.Now().Add(time.Hour))
	return w
}

// Temporal's database is restored from a backup, and Redis is not: the run goes on at the version, step and settings
// that it had told, no name gets other weights, and a trainer is not sent away for what the backup does not know.
func TestTemporalComesBackOlder(t *testing.T) {
	t.Parallel()
	first := newWorld(t)
	first.spec.Steps = 9
	weights := []string{first.write("v1", "1"), first.write("v2", "2"), first.write("v3", "3"), first.write("v4", "4")}
	other := first.write("other", "of another trainer")
	first.at(time.Minute, func() { first.publish(1, weights[0], first.serves) })
	first.at(2*time.Minute, func() { first.train(0) })
	first.at(3*time.Minute, func() { first.env.SetCurrentHistoryLength(7000) })
	first.start()
	backup := first.cut()

	second := newWorld(t).after(first)
	second.at(time.Minute, func() { second.publish(2, weights[1], second.serves) })
	second.at(2*time.Minute, func() { second.publish(3, weights[2], second.serves) })
	second.at(3*time.Minute, func() { second.train(1) })
	second.at(3*time.Minute, func() {
		second.update(workflows.UpdateChange, spec.Pause(true), func(any, error) {})
	})
	second.at(4*time.Minute, func() { second.env.SetCurrentHistoryLength(7000) })
	second.env.ExecuteWorkflow(workflows.Run, backup)
	second.cut()

	w := newWorld(t).after(second)
	w.at(time.Minute, func() {
		if status := w.status(); status.PolicyVersion != 3 || status.State != runstatus.RunPaused || status.NextStep != 2 {
			t.Errorf("a run at version %d, %s, next step %d; want what it had told: version 3, paused, next step 2",
				status.PolicyVersion, status.State, status.NextStep)
		}
		w.publish(2, other, w.refused("conflict", "other weights"))
		w.publish(3, weights[2], w.serves)
		w.publish(4, weights[3], w.serves)
	})
	w.at(2*time.Minute, func() {
		w.update(workflows.UpdateChange, spec.Pause(false), func(any, error) {})
	})
	w.at(3*time.Minute, func() { w.train(2) })
	w.stopAt(4 * time.Minute)
	w.env.ExecuteWorkflow(workflows.Run, backup)
	if status := w.result(); status.PolicyVersion != 4 || status.NextStep != 3 {
		t.Errorf("it ended at version %d, next step %d", status.PolicyVersion, status.NextStep)
	}
	if told := w.reported(); told.count("Temporal came back older") != 1 {
		t.Errorf("told: %q; want once that Temporal came back older", told.all)
	}
	for _, seqs := range [][]rollout.GroupSeq{first.fed, second.fed} {
		for _, seq := range w.fed {
			if slices.Contains(seqs, seq) {
				t.Errorf("group %d was given to a trainer twice", seq)
			}
		}
	}
}

// The backup is from before the first version: its name is not free either.
func TestTemporalComesBackFromBeforeTheFirstVersion(t *testing.T) {
	t.Parallel()
	first := newWorld(t)
	one, other := first.write("v1", "1"), first.write("other", "of another trainer")
	first.at(time.Minute, func() { first.env.SetCurrentHistoryLength(7000) })
	first.start()
	backup := first.cut()

	second := newWorld(t).after(first)
	second.at(time.Minute, func() { second.publish(1, one, second.serves) })
	second.at(2*time.Minute, func() { second.env.SetCurrentHistoryLength(7000) })
	second.env.ExecuteWorkflow(workflows.Run, backup)
	second.cut()

	w := newWorld(t).after(second)
	w.at(time.Minute, func() { w.publish(1, other, w.refused("conflict", "other weights")) })
	w.stopAt(2 * time.Minute)
	w.env.ExecuteWorkflow(workflows.Run, backup)
	if status := w.result(); status.PolicyVersion != 1 {
		t.Errorf("version %d, want 1", status.PolicyVersion)
	}
}
