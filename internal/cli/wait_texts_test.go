package cli

import (
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

func TestPrefillAndPublicationAreShown(t *testing.T) {
	t.Parallel()
	run := func(change func(*runView)) runView {
		v := runView{RunStatus: rollout.RunStatus{Spec: rollout.Spec{Buffer: rollout.BufferSpec{Depth: 2, GroupsPerStep: 4}},
			State: rollout.RunRunning}, Buffer: rollout.BufferCounts{Ready: 2}, Fleet: &rollout.FleetView{Engines: 2}}
		change(&v)
		return v
	}
	for _, tt := range []struct {
		name          string
		v             runView
		fills, loaded string
	}{
		{"filled", run(func(*runView) {}), "prefill  [####------------] 2 of 8 groups ready", ""},
		{"the first batch alone", run(func(v *runView) { v.Spec.Buffer.Prefill = rollout.PrefillBatch }),
			"prefill  [########--------] 2 of 4 groups ready", ""},
		{"full", run(func(v *runView) { v.Buffer.Ready = 8 }), "", ""},
		{"begun", run(func(v *runView) { v.Buffer.Claimed = 4 }), "", ""},
		{"over", run(func(v *runView) { v.State = rollout.RunStopped }), "", ""},
		{"a version is loaded", run(func(v *runView) {
			v.NextStep, v.Policies = 3, []rollout.Policy{{Version: 3, State: rollout.PolicyServing},
				{Version: 4, State: rollout.PolicyLoading, LoadSec: map[rollout.EngineID]float64{"a": 1}}}
		}), "", "publish  v4 [########--------] loaded by 1 of 2 engines"},
	} {
		if got := prefillText(tt.v); got != tt.fills {
			t.Errorf("%s: %q", tt.name, got)
		}
		if got := publishingText(tt.v); got != tt.loaded {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}
