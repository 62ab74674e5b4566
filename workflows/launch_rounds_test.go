package workflows_test

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/run/runmachine"
	"github.com/millrace/millrace/workflows"
)

// A large run is launched in rounds, so that Temporal has time for others in between; its stop is seen at once, and its
// groups are cancelled in rounds too.
func TestLargeRunIsLaunchedAndStoppedInRounds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name            string
		groups, samples int
		all             int // groups launched
		round           int // groups cancelled at once
	}{
		{"many groups", 600, 4, 600, 64}, // Temporal takes each round quickly
		{"large groups", 600, 256, 64, 2},
		{"the largest groups", 1500, 1024, 16, 1},
		{"a small run", 12, 8, 12, 12},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && tt.all > 100 {
				t.Skip("the other runs go through the same rounds")
			}
			w := newWorld(t)
			w.spec.Group = runspec.GroupSpec{Samples: tt.samples, MinSamples: tt.samples}
			w.spec.Buffer.Depth, w.spec.Buffer.GroupsPerStep = 1, tt.groups
			cancelled, atOnce, first := 0, 0, time.Time{}
			group := func(ctx workflow.Context, in workflows.GroupInput) (activities.GroupEnd, error) {
				return activities.GroupEnd{Seq: in.Plan.Ref.Seq}, workflow.Sleep(ctx, 24*time.Hour)
			}
			w.env.RegisterWorkflowWithOptions(group,
				workflow.RegisterOptions{Name: "Group", DisableAlreadyRegisteredCheck: true})
			w.env.SetOnChildWorkflowCompletedListener(func(*workflow.Info, converter.EncodedValue, error) {
				if cancelled++; cancelled == 1 {
					first = w.env.Now()
					status, err := w.buffer.Status(context.Background(), "demo")
					if err != nil || status.State != runstatus.RunStopped || int(status.Launched) != tt.all {
						t.Errorf("readers see %s, %d groups launched, want %d: %v", status.State, status.Launched, tt.all, err)
					}
				}
				if w.env.Now().Sub(first) < runmachine.RoundEvery/2 {
					atOnce++
				}
			})
			w.stopAt(90 * time.Second)
			w.start()
			if atOnce != tt.round {
				t.Errorf("%d of %d groups are cancelled at once, want %d", atOnce, tt.all, tt.round)
			}
			if status := w.result(); status.State != runstatus.RunStopped || cancelled != tt.all {
				t.Errorf("ended %s with %d groups cancelled, want %d", status.State, cancelled, tt.all)
			}
		})
	}
}

// The run's workflow is cancelled in Temporal's own tools while it launches: it ends as a stopped run all the same, and
// lets go of what it has begun.
func TestCancelWhileLaunchingIsAStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in workflows.GroupInput) (activities.GroupEnd, error) {
		return activities.GroupEnd{Seq: in.Plan.Ref.Seq}, workflow.Sleep(ctx, time.Hour)
	}, workflow.RegisterOptions{Name: "Group", DisableAlreadyRegisteredCheck: true})
	const anything = "mock.Anything" // as the environment's mocks have it
	w.env.OnRequestCancelExternalWorkflow(anything, anything, anything).Return(nil)
	w.env.SetOnChildWorkflowStartedListener(func(*workflow.Info, workflow.Context, converter.EncodedValues) {
		w.env.CancelWorkflow()
	})
	w.start()
	if status := w.result(); status.State != runstatus.RunStopped {
		t.Errorf("ended %s", status.State)
	}
	status, err := w.buffer.Status(context.Background(), "demo")
	if err != nil || status.State != runstatus.RunStopped {
		t.Errorf("readers see %s: %v", status.State, err)
	}
}
