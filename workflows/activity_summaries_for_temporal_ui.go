package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// Summaries gives every activity that a workflow has executed the one line that Temporal's UI shows beside it. It is a
// worker's interceptor, because a summary is no part of what a workflow does: replays do not compare it.
type Summaries struct {
	interceptor.WorkerInterceptorBase
}

// InterceptWorkflow stands between a workflow and what it asks for.
func (*Summaries) InterceptWorkflow(_ workflow.Context,
	next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &summariesInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type summariesInbound struct {
	interceptor.WorkflowInboundInterceptorBase
}

// Init puts the summaries before whatever else is asked through.
func (s *summariesInbound) Init(outbound interceptor.WorkflowOutboundInterceptor) error {
	return s.Next.Init(&summariesOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: outbound}})
}

type summariesOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
}

// ExecuteActivity adds the summary.
func (s *summariesOutbound) ExecuteActivity(ctx workflow.Context, activity string, args ...any) workflow.Future {
	options := workflow.GetActivityOptions(ctx)
	options.Summary = clipped(Summary(activity, args...))
	return s.Next.ExecuteActivity(workflow.WithActivityOptions(ctx, options), activity, args...)
}

// ExecuteLocalActivity adds the summary.
func (s *summariesOutbound) ExecuteLocalActivity(ctx workflow.Context, activity string, args ...any) workflow.Future {
	options := workflow.GetLocalActivityOptions(ctx)
	options.Summary = clipped(Summary(activity, args...))
	return s.Next.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, options), activity, args...)
}

// Summary says in one line what an activity does with its input; empty for one that it does not know.
func Summary(activity string, args ...any) string {
	if len(args) == 0 {
		return ""
	}
	switch in := args[0].(type) {
	case activities.EpisodeInput:
		return fmt.Sprintf("game %d of group %d, policy version %d", in.Sample, in.Plan.Ref.Seq, in.Plan.Version)
	case activities.GroupPlan:
		if activity == "WarmUpGroup" {
			return fmt.Sprintf("the shared opening of group %d", in.Ref.Seq)
		}
		return fmt.Sprintf("the scenario of group %d", in.Ref.Seq)
	case activities.CommitInput:
		return fmt.Sprintf("%d games of group %d to the buffer", len(in.Finished), in.Ref.Seq)
	case activities.DiscardInput:
		return fmt.Sprintf("drop group %d: %s", in.Ref.Seq, in.Code)
	case activities.ReleaseInput:
		return fmt.Sprintf("drop %d groups: %s", len(in.Seqs), in.Code)
	case activities.LookInput:
		return fmt.Sprintf("whether %d groups have a workflow", len(in.Seqs))
	default:
		if text := summaryOfRun(in); text != "" {
			return text
		}
		if text := summaryOfScaling(in); text != "" {
			return text
		}
		return summaryOfAdapter(in)
	}
}

// summaryOfScaling is of what is done to have as many engines as are wanted.
func summaryOfScaling(in any) string {
	switch in := in.(type) {
	case activities.ScaleInput:
		return fmt.Sprintf("how many engines are wanted; %d are known", len(in.State.Pool.Engines))
	case supply.Command:
		return fmt.Sprintf("%s engine %s", in.Do, in.ID)
	case activities.ScalingNews:
		if in.Ended {
			return "the fleet is not scaled any more"
		}
		return fmt.Sprintf("tell %d decisions, %d measured effects", len(in.Decided), len(in.Measured))
	}
	return ""
}

// summaryOfRun is of what is done for a run.
func summaryOfRun(in any) string {
	switch in := in.(type) {
	case runspec.Spec:
		return fmt.Sprintf("open the buffer of run %s", in.Name)
	case activities.AccountInput:
		return fmt.Sprintf("the buffer's account since step %d", in.Since)
	case activities.ConfirmInput:
		return fmt.Sprintf("the account of era %d is right", in.Era)
	case activities.RepairInput:
		return fmt.Sprintf("Redis came back older: repair the account, era %d", in.Repair.Era)
	case activities.RestoreInput:
		return fmt.Sprintf("Redis is told how far the run had come: step %d", in.Status.NextStep)
	case activities.MirrorInput:
		text := fmt.Sprintf("%s, step %d, policy version %d", in.Status.State, in.Status.NextStep, in.Status.PolicyVersion)
		if in.Change != "" {
			text += ": " + in.Change
		}
		return text
	}
	return ""
}

// summaryOfAdapter is of what is done about adapters and engines.
func summaryOfAdapter(in any) string {
	switch in := in.(type) {
	case activities.InspectInput:
		return fmt.Sprintf("the files of adapter %s", in.Adapter.Name)
	case activities.LoadInput:
		return fmt.Sprintf("adapter %s on engine %s", in.Adapter.Name, in.Engine)
	case activities.UnloadInput:
		return fmt.Sprintf("adapter %s off engine %s", in.Name, in.Engine)
	case activities.PolicyReport:
		return fmt.Sprintf("policy version %d is %s", in.Policy.Version, in.Policy.State)
	case fleet.Adapter:
		return fmt.Sprintf("adapter %s on every engine of its base model, also those that join", in.Name)
	case activities.SwitchInput:
		return fmt.Sprintf("new groups use adapter %s", in.Name)
	case activities.ChoiceInput:
		return fmt.Sprintf("the engines of %s that are to load an adapter of %s", in.Base, in.Run)
	case string:
		return fmt.Sprintf("adapter %s is not wanted any more", in)
	case time.Duration:
		return fmt.Sprintf("watches the engines for %v", in)
	}
	return ""
}

// maxSummary is how many bytes Temporal takes of a summary, and less: a workflow that says more cannot go on.
const maxSummary = 200

// clipped cuts a text to the size of a summary.
func clipped(text string) string {
	if len(text) <= maxSummary {
		return text
	}
	return strings.ToValidUTF8(text[:maxSummary-len("…")], "") + "…"
}
