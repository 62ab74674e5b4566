package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/millrace/millrace/internal/rollout"
)

// What Temporal's own UI and CLI show of a run: the service adds the search attributes by itself, runs and groups are
// found by them, and every workflow and activity says for people what it is.
func TestTemporalListsAndDescribesARun(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.inProcess()
	d.until("the search attributes", func() error {
		if !d.conns.Control.Attributes.There() {
			d.conns.Control.Attributes.Look(d.ctx) // its server and worker look at their own pace
			return fmt.Errorf("not there yet")
		}
		return nil
	})
	d.conns.Control.Page = "http://127.0.0.1:8700"
	d.train(4)
	d.completed(4)

	d.lists(`WorkflowType = "Run" AND MillraceRun = "rolling" AND MillraceState = "completed" AND MillraceStep = 4`, 1)
	d.lists(`MillraceRun = "rolling" AND MillraceState = "ready" AND MillracePolicyVersion >= 1`, 3)
	d.lists(`MillraceRun = "another"`, 0)

	run := d.described(d.conns.Control.Deployment.RunID("rolling"))
	run.says(t, "", "", "**completed**", "run rolling: 4 steps of 3 groups of 3 games", "step 4 of 4",
		"(http://127.0.0.1:8700/runs/rolling)")
	begun := d.described(run.id, run.first)
	begun.says(t, "run rolling: 4 steps of 3 groups of 3 games", "[http://127.0.0.1:8700/runs/rolling]")
	if step := run.memo(t, "step"); step != "4" {
		t.Errorf("the run's memo is of step %s, want 4", step)
	}
	first := d.described(d.conns.Control.Deployment.GroupID(rollout.GroupRef{Run: "rolling"}))
	first.says(t, "group 0 of run rolling: 3 games", "[http://127.0.0.1:8700/runs/rolling/groups/0]", "**ready**",
		"/runs/rolling/games/0/2")
	fleet := d.described(d.conns.Control.Deployment.FleetID())
	fleet.says(t, "keeps the engines", "millrace engine list", "")
	for _, id := range []string{run.id, first.id, fleet.id} {
		for _, event := range d.history(id, "").Events {
			name := event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()
			if name != "" && payload(event.GetUserMetadata().GetSummary()) == "" {
				t.Errorf("%s: activity %s has no summary", id, name)
			}
		}
	}
}

// A namespace that loses its attributes, or has had none, gets them; meanwhile runs are started without.
func TestRunsStartWithoutSearchAttributes(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	attributes := d.conns.Control.Attributes
	d.until("the search attributes", func() error {
		attributes.Look(d.ctx)
		if !attributes.There() {
			return fmt.Errorf("not there yet")
		}
		return nil
	})
	d.removeAttribute("MillraceStep")
	// The look was before the removal, so that the start is refused first.
	d.until("a start without attributes", func() error {
		spec := d.spec("bare", servedModel, 1)
		_, _, err := d.conns.Control.Start(d.ctx, spec)
		return err
	})
	attributes.Look(d.ctx)
	d.until("the attribute that was removed", func() error {
		have, err := d.temporal.OperatorService().ListSearchAttributes(d.ctx,
			&operatorservice.ListSearchAttributesRequest{Namespace: d.cfg.Temporal.Namespace})
		if err == nil && have.GetCustomAttributes()["MillraceStep"] != enums.INDEXED_VALUE_TYPE_INT {
			err = fmt.Errorf("it is not there")
		}
		return err
	})
}

func (d *deployment) removeAttribute(name string) {
	d.t.Helper()
	_, err := d.temporal.OperatorService().RemoveSearchAttributes(d.ctx, &operatorservice.RemoveSearchAttributesRequest{
		Namespace: d.cfg.Temporal.Namespace, SearchAttributes: []string{name},
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// lists waits until a query finds at least so many workflows, or exactly none.
func (d *deployment) lists(query string, want int) {
	d.t.Helper()
	d.until(query, func() error {
		answer, err := d.temporal.ListWorkflow(d.ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		if n := len(answer.GetExecutions()); err == nil && (n < want || want == 0 && n > 0) {
			err = fmt.Errorf("%d workflows, want %d", n, want)
		}
		return err
	})
}

// description is what Temporal shows of a workflow.
type description struct {
	id, first                 string // and the first execution's
	summary, details, current string
	info                      *commonpb.Memo
}

// described describes the latest execution of a workflow, or another one.
func (d *deployment) described(id string, execution ...string) description {
	d.t.Helper()
	which := strings.Join(execution, "")
	answer, err := d.temporal.DescribeWorkflowExecution(d.ctx, id, which)
	if err != nil {
		d.t.Fatal(err)
	}
	metadata := answer.GetExecutionConfig().GetUserMetadata()
	info := answer.GetWorkflowExecutionInfo()
	out := description{id: id, first: info.GetFirstRunId(), summary: payload(metadata.GetSummary()),
		details: payload(metadata.GetDetails()), info: info.GetMemo()}
	d.until("what "+id+" says now", func() error {
		value, err := d.temporal.QueryWorkflow(context.WithoutCancel(d.ctx), id, which, "__temporal_workflow_metadata")
		if err != nil {
			return err
		}
		var now sdk.WorkflowMetadata
		err = value.Get(&now)
		out.current = now.GetCurrentDetails()
		return err
	})
	return out
}

func (d description) says(t *testing.T, summary, details string, current ...string) {
	t.Helper()
	if !strings.Contains(d.summary, summary) || !strings.Contains(d.details, details) ||
		slices.ContainsFunc(current, func(want string) bool { return !strings.Contains(d.current, want) }) {
		t.Errorf("%s:\nsummary %q, want %q\ndetails %q, want %q\nnow %q, want %q", d.id, d.summary, summary, d.details,
			details, d.current, current)
	}
}

func (d description) memo(t *testing.T, key string) string {
	t.Helper()
	return string(d.info.GetFields()[key].GetData())
}

// payload is a payload's text.
func payload(p *commonpb.Payload) string {
	var text string
	_ = json.Unmarshal(p.GetData(), &text) // no payload is no text
	return text
}
