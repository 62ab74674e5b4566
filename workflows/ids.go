package workflows

import (
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
)

// FleetID is the id of the one workflow that keeps the engines.
const FleetID = "millrace-fleet"

// RunID is the workflow id of a run.
func RunID(run rollout.RunName) string { return "run/" + string(run) }

// GroupID is the workflow id of a group.
func GroupID(ref rollout.GroupRef) string { return fmt.Sprintf("group/%s/%d", ref.Run, ref.Seq) }

// Queues are the task queues of a deployment: control for workflows and short activities, games for
// episodes, which are many and long.
type Queues struct {
	Control string
	Games   string
}

// QueuesOf derives the task queues from a deployment's prefix.
func QueuesOf(prefix string) Queues {
	return Queues{Control: prefix + "-control", Games: prefix + "-games"}
}
