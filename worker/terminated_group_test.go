package worker

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Somebody terminates a group's workflow in Temporal's own tools: a worker as it is in production drops it as
// vanished, and launches another in its place.
func TestTerminatedGroupIsReplaced(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.inProcess()
	spec := d.spec(d.run, "nobody/serves-this", 2) // so that its games never end
	spec.Group = runspec.GroupSpec{Samples: 1, MinSamples: 1}
	spec.Buffer.Depth, spec.Buffer.GroupsPerStep = 1, 2
	d.start(spec)
	d.until("the group to be there", func() error {
		return d.temporal.TerminateWorkflow(d.ctx,
			d.conns.Control.Deployment.GroupID(rollout.GroupRef{Run: d.run, Seq: 0}), "", "a mistake")
	})
	d.until("the group to be replaced", func() error {
		status, err := d.conns.Buffer.Status(d.ctx, d.run)
		if err == nil && (status.Failures["vanished"] != 1 || status.Launched != 3 || status.Outstanding != 2) {
			err = fmt.Errorf("failures %v of %d launched, %d outstanding", status.Failures, status.Launched, status.Outstanding)
		}
		return err
	})
}
