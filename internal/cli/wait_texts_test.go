package cli

import (
	"strings"
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

func TestEngineDrainWaits(t *testing.T) {
	t.Parallel()
	const idle = `{"id":"a","state":"draining","since":"2026-11-21T11:00:00Z","load":{"at":"2026-11-21T11:00:05Z","running":0}}`
	answers := map[string]reply{"POST /v1/engines/a/drain": {200, idle}, "GET /v1/engines/a": {200, idle},
		"DELETE /v1/engines/gone": {200, `{}`}}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"drain", "a", "--wait"}, ExitOK, "engine a has finished what it had"},
		{[]string{"remove", "gone", "--wait"}, ExitOK, "engine gone has left"},
	} {
		r, _ := command(t, answers, "", nil, append([]string{"engine"}, tt.args...)...)
		if r.code != tt.code || !strings.Contains(r.stderr, tt.want) {
			t.Errorf("%v: exit code %d\n%s", tt.args, r.code, r.stderr)
		}
	}
	answers["GET /v1/engines/a"] = reply{200, strings.Replace(idle, "draining", "ready", 1)}
	if r, _ := command(t, answers, "", nil, "engine", "drain", "a", "--wait"); r.code != ExitError {
		t.Errorf("one that is added again: exit code %d: %s", r.code, r.stderr)
	}
}
