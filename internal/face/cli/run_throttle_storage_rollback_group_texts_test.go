package cli

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

func TestRollbackText(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 5, 0, 0, time.UTC)
	if got := rollbackText(runstatus.RunStatus{}, now); got != "" {
		t.Errorf("a run that was never rolled back shows %q", got)
	}
	got := rollbackText(runstatus.RunStatus{Rollbacks: 2, Rollback: &runstatus.Rollback{
		At: now.Add(-5 * time.Minute), Granted: 9, FoundGranted: 7, Completed: 8, FoundCompleted: 6, Restored: 1,
		LostBatches: []rollout.Step{8}, LostRecords: 2, LostGroups: 3,
	}}, now)
	want := "Redis came back older than it was: it knew of 7 steps granted and 6 completed, not 9 and 8, 1 batches " +
		"granted again as they were, 1 batches lost, 2 records of completed steps lost, 3 groups lost, 5m00s ago; " +
		"without a batch: steps 8; 2 times in all"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
