package workflows

import (
	"encoding/json"
	"math/bits"

	"go.temporal.io/sdk/workflow"
)

// maxTaskBytes bounds what a workflow starts in one workflow task: half of the most in a message, 4 MB; the rest is for
// other parts and for encoding. A task above the limit could never be completed.
const maxTaskBytes = 2 << 20

// commandBytes is an upper bound of a command's size without its input. It is a variable so that tests can change it.
var commandBytes = 1 << 10

// A lot is the groups, or the games of a group, that one task starts. An input's size depends on the version that
// encodes it. So the history has the lots in it, and a replay takes them from there: a run records them with its first
// launch and whenever they change; a group gets them from its run.

// groupLot is how many groups with such an input the run starts in one task.
func groupLot(ctx workflow.Context, input GroupInput) int {
	measure := func(workflow.Context) any { return steady(perTask(input)) }
	same := func(a, b any) bool { return a == b }
	lot := 1
	if err := workflow.MutableSideEffect(ctx, "group-lot", measure, same).Get(&lot); err != nil {
		workflow.GetLogger(ctx).Error("read how many groups are started at once", "error", err)
	}
	return max(1, lot)
}

// steady rounds a lot down to a power of two, so that inputs of about the same length make the same one, which is
// recorded once.
func steady(lot int) int { return 1 << (bits.Len(uint(lot)) - 1) }

// perTask is how many commands with such an input one task has room for.
//
//workflowcheck:ignore JSON writes the keys of maps in order, and the length decides nothing that a history lacks
func perTask(input any) int {
	b, err := json.Marshal(input)
	if err != nil {
		return 1 // the SDK will say so
	}
	return max(1, maxTaskBytes/(len(b)+commandBytes))
}
