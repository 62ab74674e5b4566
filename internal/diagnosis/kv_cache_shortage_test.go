package diagnosis

import (
	"testing"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// TestShortOfKV: an engine is short of memory when one more request of the usual size does not fit and some wait beside
// free slots, or when it preempts.
func TestShortOfKV(t *testing.T) {
	t.Parallel()
	view := func(share, running, waiting, preemptions float64) *enginestate.EngineView {
		return &enginestate.EngineView{WindowSec: 100, Limit: 64, KVUsage: share, Running: running, Waiting: waiting,
			InFlight: running + waiting, Preemptions: preemptions, Requests: 200}
	}
	for _, tt := range []struct {
		name   string
		view   *enginestate.EngineView
		queued bool
		want   bool
	}{
		{"full, and some wait inside", view(0.95, 30, 10, 0), false, true},
		{"full, and some wait in front", view(0.85, 30, 0, 0), true, true},
		{"few large requests", view(0.7, 3, 4, 0), false, true},
		{"full, and nobody waits", view(0.95, 30, 0, 0), false, false},
		{"half empty, and some wait: it is --max-num-seqs", view(0.4, 30, 10, 0), false, false},
		{"its slots are full", view(0.95, 62, 2, 0), true, false},
		{"preempts one request in ten", view(0.6, 30, 0, 20), false, true},
		{"preempted once", view(0.6, 30, 0, 1), false, false},
	} {
		if got := shortOfKV(tt.view, tt.queued); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
