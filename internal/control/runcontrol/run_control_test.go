package runcontrol

import (
	"context"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// known is the statuses of runs by name.
type known struct {
	accounts
	states map[rollout.RunName]runstatus.RunState
}

func (k known) Status(_ context.Context, run rollout.RunName) (runstatus.RunStatus, error) {
	state, ok := k.states[run]
	if !ok {
		return runstatus.RunStatus{}, rollout.Refuse(rollout.NoSuchRun, "no run %s", run)
	}
	return runstatus.RunStatus{State: state}, nil
}

func TestARunThatHasEndedIsNotAnUnknownOne(t *testing.T) {
	t.Parallel()
	c := Control{buffer: known{states: map[rollout.RunName]runstatus.RunState{"done": runstatus.RunCompleted,
		"lively": runstatus.RunRunning}}}
	gone := rollout.Refuse(rollout.NoSuchRun, "no workflow")
	for _, tt := range []struct {
		run  rollout.RunName
		err  error
		want rollout.RefusalCode
	}{
		{"done", gone, rollout.RunOver},
		{"lively", gone, rollout.Orphaned},
		{"nobody", gone, rollout.NoSuchRun},
		{"done", rollout.Refuse(rollout.Invalid, "depth 0"), rollout.Invalid},
	} {
		if got := c.ended(t.Context(), tt.run, tt.err); !rollout.Refused(got, tt.want) {
			t.Errorf("%s, %v: got %v, want %s", tt.run, tt.err, got, tt.want)
		}
	}
	if err := c.ended(t.Context(), "done", nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
