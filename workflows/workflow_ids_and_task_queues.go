package workflows

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
)

// Deployment names one deployment of the service among those that share a Temporal namespace: all its workflow ids
// and task queues begin with it.
type Deployment string

// FleetID is the id of the one workflow that keeps the deployment's engines.
func (d Deployment) FleetID() string { return d.id("fleet") }

// ScalingID is the id of the one workflow that scales the deployment's fleet.
func (d Deployment) ScalingID() string { return d.id("scaling") }

// RunID is the workflow id of a run.
func (d Deployment) RunID(run rollout.RunName) string { return d.id("run/" + string(run)) }

// GroupID is the workflow id of a group.
func (d Deployment) GroupID(ref rollout.GroupRef) string {
	return d.id(fmt.Sprintf("group/%s/%d", ref.Run, ref.Seq))
}

// GroupOf is the group whose workflow has an id; false for the id of another workflow, or another deployment's.
func (d Deployment) GroupOf(workflowID string) (rollout.GroupRef, bool) {
	rest, is := strings.CutPrefix(workflowID, d.id("group/"))
	run, number, ok := strings.Cut(rest, "/")
	seq, err := strconv.ParseInt(number, 10, 64)
	return rollout.GroupRef{Run: rollout.RunName(run), Seq: rollout.GroupSeq(seq)}, is && ok && err == nil
}

func (d Deployment) id(rest string) string { return string(d) + "/" + rest }

// Queues are the deployment's task queues.
func (d Deployment) Queues() Queues {
	return Queues{Control: string(d) + "-control", Games: string(d) + "-games"}
}

// Queues are task queues: control for workflows and short activities, games for episodes, which are many and long.
type Queues struct {
	Control string
	Games   string
}

// Of is the queues of one run, whose games have a task queue of their own: workers give each run's its share of
// their slots.
func (q Queues) Of(run rollout.RunName) Queues {
	return Queues{Control: q.Control, Games: q.Games + "/" + string(run)}
}

// ScalingQueue is the task queue of what touches a provider. Engines of some providers belong to a host.
func (d Deployment) ScalingQueue(provider, host string) string {
	queue := d.Queues().Control + "/scaling/" + provider
	if host != "" {
		queue += "/" + host
	}
	return queue
}
