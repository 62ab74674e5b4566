package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// What Temporal's UI and CLI show of a workflow for people: one line, and details as Markdown. Changing details are not
// in the history: they are the answer to a query.

// memoPage is the memo key of the run's page address.
const memoPage = "page"

// describe adds the texts that Temporal shows for a run to the options of its workflow.
func (c *Client) describe(options *client.StartWorkflowOptions, s runstatus.RunStatus) {
	spec := s.Spec
	options.StaticSummary = clipped(runSummary(spec))
	options.StaticDetails = fmt.Sprintf("A training run of Millrace. See `millrace run show %[1]s`, "+
		"`millrace diagnose %[1]s`.", spec.Name)
	if c.Page != "" {
		page := strings.TrimSuffix(c.Page, "/") + "/runs/" + string(spec.Name)
		options.StaticDetails += fmt.Sprintf(" Its page: [%[1]s](%[1]s)", page)
		options.Memo[memoPage] = page
	}
	if c.Attributes.There() {
		options.TypedSearchAttributes = runAttributes(s)
	}
}

func runSummary(s runspec.Spec) string {
	return fmt.Sprintf("run %s: %d steps of %d groups of %d games, %s on %s", s.Name, s.Steps, s.Buffer.GroupsPerStep,
		s.Group.Samples, s.Environment.Kind, s.Model)
}

// pageOf is the address of the run's page; empty where the run was started without one.
func pageOf(ctx workflow.Context) string {
	var page string
	kept := workflow.GetInfo(ctx).Memo.GetFields()[memoPage]
	if kept == nil || converter.GetDefaultDataConverter().FromPayload(kept, &page) != nil {
		return ""
	}
	return page
}

// describeGroup adds the texts that Temporal shows for a group to the options of its workflow.
func describeGroup(ctx workflow.Context, options *workflow.ChildWorkflowOptions, plan activities.GroupPlan) {
	ref := plan.Ref
	options.StaticSummary = clipped(fmt.Sprintf("group %d of run %s: %d games of %s, policy version %d", ref.Seq,
		ref.Run, plan.Samples+plan.Oversample, plan.Environment.Kind, plan.Version))
	options.StaticDetails = fmt.Sprintf("Games of one scenario, whose rewards are compared. See `millrace run games %s "+
		"--group %d`.", ref.Run, ref.Seq)
	options.Memo = map[string]any{"run": ref.Run, "group": ref.Seq, "policy_version": plan.Version}
	if page := pageOf(ctx); page != "" {
		page = fmt.Sprintf("%s/groups/%d", page, ref.Seq)
		options.StaticDetails += fmt.Sprintf(" Its page: [%[1]s](%[1]s)", page)
		options.Memo[memoPage] = page
	}
	if indexed(ctx) {
		options.TypedSearchAttributes = groupAttributes(plan)
	}
}

// show has Temporal show how the run is now.
func (r *run) show(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, runDetails(r.machine.Status(), pageOf(ctx)))
}

// runDetails is a run at a glance, as Markdown. It says what the summary says, too: Temporal drops that when a run's
// history is cut.
func runDetails(s runstatus.RunStatus, page string) string {
	text := fmt.Sprintf("**%s**", s.State)
	if s.Reason != "" {
		text += fmt.Sprintf(" (%s)", s.Reason)
	}
	text += fmt.Sprintf("\n\n- %s\n- step %d of %d, policy version %d\n- %d groups launched, %d of them outstanding\n",
		runSummary(s.Spec), s.NextStep, s.Spec.Steps, s.PolicyVersion, s.Launched, s.Outstanding)
	if n := givenUp(s.Failures); n > 0 {
		text += fmt.Sprintf("- %d groups given up: `millrace run show %s`\n", n, s.Spec.Name)
	}
	if s.Throttle != "" {
		text += fmt.Sprintf("- fewer launched than the depth asks for: %s\n", s.Throttle)
	}
	if s.Rollbacks > 0 {
		text += fmt.Sprintf("- Redis came back older %d times; the account was repaired\n", s.Rollbacks)
	}
	if page != "" {
		text += fmt.Sprintf("- [its page](%s)\n", page)
	}
	return text
}

// givenUp is how many groups were given up, whyever.
//
//workflowcheck:ignore a sum is the same in any order
func givenUp(failures map[rollout.Code]int64) (n int64) {
	for _, some := range failures {
		n += some
	}
	return n
}

// show has Temporal show how far a group's games are.
func (g *games) show(ctx workflow.Context, plan activities.GroupPlan) {
	details := fmt.Sprintf("**playing**\n\n- %d games finished, %d wanted\n- %d not finished yet\n", len(g.finished),
		plan.Samples, g.running)
	if failed := plan.Samples + plan.Oversample - len(g.finished) - g.running; failed > 0 {
		details += fmt.Sprintf("- %d given up, the latest because of: %s\n", failed, activities.Code(g.failure))
	}
	if g.late {
		details += "- as few as the spec allows will do: the others had their time\n"
	}
	workflow.SetCurrentDetails(ctx, details+g.pages)
}

// gamePages links to the page of each of a group's games.
func gamePages(ctx workflow.Context, plan activities.GroupPlan) string {
	run, _, known := strings.Cut(pageOf(ctx), "/groups/")
	if !known {
		return ""
	}
	text := "- pages of its games:"
	for sample := range plan.Samples + plan.Oversample {
		text += fmt.Sprintf(" [%d](%s/games/%d/%[1]d)", sample, run, plan.Ref.Seq)
	}
	return text + "\n"
}

// showEnd shows a group's outcome in Temporal.
func showEnd(ctx workflow.Context, plan activities.GroupPlan, end activities.GroupEnd) {
	details := "**ready**: the trainer may claim it"
	switch {
	case end.Code != "":
		details = fmt.Sprintf("**dropped**: %s", end.Code)
	case end.ZeroVariance:
		details += "; all of its games had the same rewards"
	}
	workflow.SetCurrentDetails(ctx, details+"\n\n"+gamePages(ctx, plan))
}
