package workflows_test

import (
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/workflows"
)

// What would break runs that go on is found before it is deployed: the histories that they leave do not replay.
func TestIncompatibleChangesDoNotReplay(t *testing.T) {
	t.Parallel()
	type group = func(workflow.Context, workflows.GroupInput) (activities.GroupEnd, error)
	type run = func(workflow.Context, workflows.RunInput) (runstatus.RunStatus, error)
	var acts *activities.Activities
	for _, tt := range []struct {
		name    string
		history string
		group   group
		run     run
	}{
		{
			name: "an activity before all others", history: "1/fed-group-fed-0.0.json.gz",
			group: func(ctx workflow.Context, in workflows.GroupInput) (activities.GroupEnd, error) {
				short := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Second})
				choice := activities.ChoiceInput{Run: "demo", Base: "m"}
				if err := workflow.ExecuteActivity(short, acts.ChooseEngines, choice).Get(ctx, nil); err != nil {
					return activities.GroupEnd{}, err
				}
				return workflows.Group(ctx, in)
			},
		},
		{
			name: "one game more", history: "1/fed-group-fed-0.0.json.gz",
			group: func(ctx workflow.Context, in workflows.GroupInput) (activities.GroupEnd, error) {
				in.Plan.Samples++
				return workflows.Group(ctx, in)
			},
		},
		{
			name: "games that are not played", history: "1/fed-group-fed-0.0.json.gz",
			group: func(workflow.Context, workflows.GroupInput) (activities.GroupEnd, error) {
				return activities.GroupEnd{}, nil
			},
		},
		{
			name: "a wait before a run begins", history: "1/fed-run-fed.0.json.gz",
			run: func(ctx workflow.Context, in workflows.RunInput) (runstatus.RunStatus, error) {
				if err := workflow.Sleep(ctx, time.Second); err != nil {
					return runstatus.RunStatus{}, err
				}
				return workflows.Run(ctx, in)
			},
		},
		{
			name: "a run that launches more groups", history: "1/fed-run-fed.0.json.gz",
			run: func(ctx workflow.Context, in workflows.RunInput) (runstatus.RunStatus, error) {
				in.Spec.Buffer.GroupsPerStep++
				return workflows.Run(ctx, in)
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			named := func(name string) workflow.RegisterOptions { return workflow.RegisterOptions{Name: name} }
			if tt.group == nil {
				tt.group = workflows.Group
			}
			if tt.run == nil {
				tt.run = workflows.Run
			}
			r.RegisterWorkflowWithOptions(tt.group, named("Group"))
			r.RegisterWorkflowWithOptions(tt.run, named("Run"))
			if err := r.ReplayWorkflowHistory(quiet, readHistory(t, tt.history)); err == nil {
				t.Error("it replays")
			}
		})
	}
}

// A history that is not what the workflow did is not taken for one.
func TestTamperedHistoryDoesNotReplay(t *testing.T) {
	t.Parallel()
	h := readHistory(t, "1/fed-group-fed-0.0.json.gz")
	for _, event := range h.Events {
		scheduled := event.GetActivityTaskScheduledEventAttributes()
		if scheduled.GetActivityType().GetName() == "CommitGroup" {
			scheduled.ActivityType.Name = "DiscardGroup"
		}
	}
	if err := replayer().ReplayWorkflowHistory(quiet, h); err == nil || !strings.Contains(err.Error(), "DiscardGroup") {
		t.Errorf("got %v, want an error that names what differs", err)
	}
}
