package fakekubelet

import (
	"net/netip"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

// TestGraceEndsAHook: a process that is told to end ends at the latest when its grace is over, also while its preStop
// hook waits, and one whose grace was shortened sooner.
func TestGraceEndsAHook(t *testing.T) {
	t.Parallel()
	for _, graces := range [][]time.Duration{{50 * time.Millisecond}, {time.Hour, 50 * time.Millisecond}, {0}} {
		pod := core.Pod{Spec: core.PodSpec{Containers: []core.Container{{
			Command:   []string{"sleep", "3600"},
			Lifecycle: &core.Lifecycle{PreStop: &core.LifecycleHandler{Sleep: &core.SleepAction{Seconds: 1800}}},
		}}}}
		container, err := Processes{}.Start(&pod, netip.MustParseAddr("127.0.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		for _, grace := range graces {
			container.Stop(grace)
		}
		select {
		case <-container.Ended():
		case <-time.After(time.Minute):
			t.Errorf("it runs on after graces of %v", graces)
		}
	}
}
