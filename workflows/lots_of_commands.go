package workflows

import "encoding/json"

// maxTaskBytes is how much a workflow gives Temporal to start in one workflow task: half of what a message may have,
// 4 MB, for the rest of the message and what encoding adds. A task with more can never be completed.
const maxTaskBytes = 2 << 20

// commandBytes is what a command has besides its input, and more.
const commandBytes = 1 << 10

// perTask is how many commands with such an input one task has room for.
//
//workflowcheck:ignore JSON writes the keys of maps in order, so that the same input has the same length
func perTask(input any) int {
	b, err := json.Marshal(input)
	if err != nil {
		return 1 // the SDK will say so
	}
	return max(1, maxTaskBytes/(len(b)+commandBytes))
}
