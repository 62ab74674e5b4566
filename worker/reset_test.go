package worker

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/millrace/millrace/internal/face/demotrainer"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// TestResetGamesGoOn: Temporal counts attempts from one again when somebody resets an activity or a group's workflow.
// Games that were at a later attempt are played all the same, and no group is dropped for it.
func TestResetGamesGoOn(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.write("engines", d.engine(0.001)+"\n") // no game comes to an end
	first := d.worker()
	spec := d.spec(d.run, servedModel, 1)
	spec.Timeouts.Heartbeat = rollout.Duration(5 * time.Second)
	spec.Group = runspec.GroupSpec{Samples: 2, MinSamples: 2}
	spec.Group.ZeroVariance = runspec.KeepZeroVariance
	spec.Buffer.Depth, spec.Buffer.GroupsPerStep = 1, 2
	spec.Adapters.PathPrefix = filepath.Join(d.dir, "adapters")
	d.start(spec)
	d.until("the games to be begun", d.begun(0, 1))
	d.until("the games to be begun", d.begun(1, 1))
	first.stop()
	d.worker()
	d.until("the games to be begun again", d.begun(0, 2))
	d.until("the games to be begun again", d.begun(1, 2))

	d.resetWorkflow(0)
	d.until("games of a group that was reset", d.begun(0, 3))
	d.resetActivities(1)
	d.until("games whose activities were reset", d.begun(1, 3))

	d.write("engines", d.engine(20)+"\n"+d.engine(20)+"\n")
	if err := demotrainer.Run(d.ctx, demotrainer.Config{
		Server: "http://" + d.cfg.Listen, Run: string(d.run), Load: time.Millisecond, RefLogprobs: time.Millisecond,
		Publish: time.Millisecond, Train: time.Millisecond, HTTPClient: http.DefaultClient,
	}); err != nil {
		t.Fatal("the trainer:", err)
	}
	counts, err := d.conns.Buffer.Counts(d.ctx, d.run)
	if err != nil || counts.Dropped > 0 {
		t.Errorf("counts: %+v, %v", counts, err)
	}
	records, err := d.conns.Buffer.Steps(d.ctx, d.run, 0, 1)
	if err != nil || len(records) != 1 || len(records[0].Service.Groups) != 2 {
		t.Fatalf("steps: %+v, %v", records, err)
	}
	for i, g := range records[0].Service.Groups {
		if g.Seq != rollout.GroupSeq(i) {
			t.Errorf("group %d is in the step", g.Seq)
		}
	}
}

// begun reports whether both games of a group have been begun so many times.
func (d *deployment) begun(seq rollout.GroupSeq, attempt int) func() error {
	return func() error {
		groups, err := d.conns.Buffer.Progress(d.ctx, d.run)
		if err != nil {
			return err
		}
		n := 0
		for _, g := range groups {
			for _, game := range g.Games {
				if g.Seq == seq && game.Attempt >= attempt {
					n++
				}
			}
		}
		if n < 2 {
			return fmt.Errorf("%d of 2 games: %+v", n, groups)
		}
		return nil
	}
}

// group is a group's workflow.
func (d *deployment) group(seq rollout.GroupSeq) *commonpb.WorkflowExecution {
	return &commonpb.WorkflowExecution{
		WorkflowId: d.conns.Control.Deployment.GroupID(rollout.GroupRef{Run: d.run, Seq: seq}),
	}
}

// resetWorkflow begins a group again after the first task of its workflow, as `temporal workflow reset` does.
func (d *deployment) resetWorkflow(seq rollout.GroupSeq) {
	d.t.Helper()
	of := d.group(seq)
	to := int64(0)
	for _, event := range d.history(of.GetWorkflowId(), "").Events {
		if event.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			to = event.GetEventId()
			break
		}
	}
	_, err := d.temporal.ResetWorkflowExecution(d.ctx, &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: d.cfg.Temporal.Namespace, WorkflowExecution: of, Reason: "an operator's", WorkflowTaskFinishEventId: to,
		RequestId: "reset",
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// resetActivities has the games of a group begin again, as `temporal activity reset` does.
func (d *deployment) resetActivities(seq rollout.GroupSeq) {
	d.t.Helper()
	_, err := d.temporal.WorkflowService().ResetActivity(d.ctx, &workflowservice.ResetActivityRequest{
		Namespace: d.cfg.Temporal.Namespace, Execution: d.group(seq), Identity: "test",
		Activity: &workflowservice.ResetActivityRequest_Type{Type: "PlayEpisode"}, ResetHeartbeat: true,
	})
	if err != nil {
		d.t.Fatal(err)
	}
}
