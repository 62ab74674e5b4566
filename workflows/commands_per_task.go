package workflows

import (
	"encoding/json"
	"math/bits"

	"go.temporal.io/sdk/workflow"
)

// maxTaskBytes is how much a workflow gives Temporal to start in one workflow task: half of what a message may have,
// 4 MB, for the rest of the message and what encoding adds. A task with more can never be completed.
const maxTaskBytes = 2 << 20

// commandBytes is what a command has besides its input, and more. A variable for tests of what another measure changes.
var commandBytes = 1 << 10

// A lot is what one task starts of groups, or of a group's games. How large an input is depends on the version that
// encodes it, so a history has its lots in it and a replay takes them from there, whatever it would measure: a run
// records them with its first launch, and again when they change; a group is given them by its run.

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
