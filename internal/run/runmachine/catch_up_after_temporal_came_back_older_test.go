package runmachine

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// A run is older than its account if that has been told more of it: of this life of its name, and by the run itself.
func TestOlder(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	for _, tt := range []struct {
		name    string
		told    *runstatus.RunStatus
		mirrors int64
		version int // of the account
		older   bool
	}{
		{"nothing more was told", nil, 4, 1, false},
		{"what it told itself", &runstatus.RunStatus{StartedAt: began}, 4, 1, false},
		{"more than it knows", &runstatus.RunStatus{StartedAt: began}, 5, 1, true},
		{"more, of another life of its name", &runstatus.RunStatus{StartedAt: began.Add(1)}, 5, 1, false},
		{"that it was lost", &runstatus.RunStatus{StartedAt: began, State: runstatus.RunLost}, 5, 1, false},
		{"that it was lost, a version more", &runstatus.RunStatus{StartedAt: began, State: runstatus.RunLost}, 5, 2, true},
	} {
		m := New(NewRun(runspec.Spec{}, began))
		m.Mirrors, m.Version = 4, 1
		account := Account{Told: tt.told, Mirrors: tt.mirrors}
		account.Version = rollout.PolicyVersion(tt.version)
		if got := m.older(account); got != tt.older {
			t.Errorf("%s: older %t, want %t", tt.name, got, tt.older)
		}
	}
}
