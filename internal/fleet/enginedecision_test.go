package fleet_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/vllm"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	const (
		joining  = rollout.EngineJoining
		loading  = rollout.EngineLoading
		ready    = rollout.EngineReady
		draining = rollout.EngineDraining
		broken   = rollout.EngineQuarantined
		lost     = rollout.EngineLost
	)
	base := vllm.Model{ID: "base", Root: "base"}
	v1 := vllm.Model{ID: "demo-v1", Root: "/adapters/demo-v1/", Parent: "base"}
	v2 := vllm.Model{ID: "demo-v2", Root: "/adapters/demo-v2", Parent: "base"}
	foreign := vllm.Model{ID: "demo-v1", Root: "/old/demo-v1", Parent: "base"}
	want1 := fleet.Desired{Adapters: []fleet.Adapter{adapter(1)}}
	mine := adapter(1)
	mine.Recorded, mine.Digest = true, "d"
	recorded := fleet.Desired{Adapters: []fleet.Adapter{mine}}
	want12 := fleet.Desired{Adapters: []fleet.Adapter{adapter(1), adapter(2)}}
	for _, tt := range []struct {
		name   string
		want   fleet.Desired
		was    fleet.Observation
		seen   fleet.Seen
		state  rollout.EngineState
		reason string
		load   []string
		unload []string
		canary bool
	}{
		{name: "first look, no answer", seen: fleet.Seen{Fault: "refused", Misses: 1}, state: joining, reason: "refused"},
		{name: "ready, one miss", was: fleet.Observation{State: ready}, seen: fleet.Seen{Fault: "refused", Misses: 2}, state: ready},
		{name: "ready, too many misses", was: fleet.Observation{State: ready}, seen: fleet.Seen{Fault: "refused", Misses: 3}, state: lost, reason: "refused"},
		{name: "lost stays lost after a Keeper moved", was: fleet.Observation{State: lost}, seen: fleet.Seen{Fault: "refused", Misses: 1}, state: lost, reason: "refused"},
		{name: "draining and gone", want: fleet.Desired{Drain: true}, was: fleet.Observation{State: draining}, seen: fleet.Seen{Fault: "refused", Misses: 3}, state: lost, reason: "refused"},
		{name: "nothing wanted, not tried yet", seen: fleet.Seen{Models: []vllm.Model{base}}, state: joining, reason: "completion", canary: true},
		{name: "nothing wanted, canary answered", seen: fleet.Seen{Models: []vllm.Model{base}, Proven: true}, state: ready},
		{name: "canary not answered", seen: fleet.Seen{Models: []vllm.Model{base}, Broken: "hangs"}, state: broken, reason: "hangs"},
		{name: "ready, canary not answered", want: want1, was: fleet.Observation{State: ready, Adapters: []string{"demo-v1"}}, seen: fleet.Seen{Models: []vllm.Model{base, v1}, Broken: "hangs"}, state: broken, reason: "hangs"},
		{name: "quarantined stays so, and loads nothing", want: want12, was: fleet.Observation{State: broken, Reason: "hung"}, seen: fleet.Seen{Models: []vllm.Model{base, v1}}, state: broken, reason: "hung"},
		{name: "quarantined, canary answered", want: want1, was: fleet.Observation{State: broken, Reason: "hung"}, seen: fleet.Seen{Models: []vllm.Model{base, v1}, Proven: true}, state: ready},
		{name: "quarantined, canary answered, behind", want: want12, was: fleet.Observation{State: broken, Reason: "hung"}, seen: fleet.Seen{Models: []vllm.Model{base, v1}, Proven: true}, state: loading, reason: "demo-v2", load: []string{"demo-v2"}},
		{name: "quarantined and silent", was: fleet.Observation{State: broken, Reason: "hung"}, seen: fleet.Seen{Fault: "refused", Misses: 3}, state: lost, reason: "refused"},
		{name: "quarantined and drained", want: fleet.Desired{Drain: true}, was: fleet.Observation{State: broken}, seen: fleet.Seen{Models: []vllm.Model{base}}, state: draining},
		{name: "joining with adapters to load", want: want12, seen: fleet.Seen{Models: []vllm.Model{base, v1}}, state: loading, reason: "demo-v2", load: []string{"demo-v2"}},
		{name: "all served, trailing slash in the root", want: want12, was: fleet.Observation{State: loading}, seen: fleet.Seen{Models: []vllm.Model{base, v1, v2}}, state: loading, reason: "completion", canary: true},
		{name: "ready, new version", want: want12, was: fleet.Observation{State: ready, Adapters: []string{"demo-v1"}}, seen: fleet.Seen{Models: []vllm.Model{base, v1}}, state: ready, load: []string{"demo-v2"}},
		{name: "ready, had it, restarted", want: want1, was: fleet.Observation{State: ready, Adapters: []string{"demo-v1"}}, seen: fleet.Seen{Models: []vllm.Model{base}}, state: loading, reason: "restarted", load: []string{"demo-v1"}},
		{name: "back from lost", want: want1, was: fleet.Observation{State: lost}, seen: fleet.Seen{Models: []vllm.Model{base}}, state: loading, reason: "loading", load: []string{"demo-v1"}},
		{name: "joining, load failed lately", want: want1, seen: fleet.Seen{Models: []vllm.Model{base}, Failed: map[string]string{"demo-v1": "rank 64"}}, state: joining, reason: "completion", canary: true},
		{name: "joining, load failed lately, canary answered", want: want1, seen: fleet.Seen{Models: []vllm.Model{base}, Failed: map[string]string{"demo-v1": "rank 64"}, Proven: true}, state: ready, reason: "lacks demo-v1: rank 64"},
		{name: "back from lost, one adapter gone for good", want: want12, was: fleet.Observation{State: lost}, seen: fleet.Seen{Models: []vllm.Model{base}, Failed: map[string]string{"demo-v1": "no such file"}}, state: loading, reason: "demo-v2", load: []string{"demo-v2"}},
		{name: "restarted, its adapter gone for good", want: want1, was: fleet.Observation{State: loading, Adapters: nil}, seen: fleet.Seen{Models: []vllm.Model{base}, Failed: map[string]string{"demo-v1": "no such file"}, Proven: true}, state: ready, reason: "no such file"},
		{name: "load under way", want: want1, seen: fleet.Seen{Models: []vllm.Model{base}, Loading: map[string]bool{"demo-v1": true}}, state: loading, reason: "demo-v1"},
		{name: "load that hangs", want: want1, was: fleet.Observation{State: loading}, seen: fleet.Seen{Models: []vllm.Model{base}, Loading: map[string]bool{"demo-v1": true}, Failed: map[string]string{"demo-v1": "hangs"}, Proven: true}, state: ready, reason: "lacks demo-v1: hangs"},
		{name: "ready, load that hangs", want: want1, was: fleet.Observation{State: ready}, seen: fleet.Seen{Models: []vllm.Model{base}, Loading: map[string]bool{"demo-v1": true}, Failed: map[string]string{"demo-v1": "hangs"}}, state: ready, reason: "lacks demo-v1: hangs"},
		{name: "not loaded: its files have changed", want: want1, was: fleet.Observation{State: ready}, seen: fleet.Seen{Models: []vllm.Model{base}, Changed: map[string]string{"demo-v1": "changed"}}, state: ready, reason: "lacks demo-v1: changed"},
		{name: "loaded, and its files have changed since", want: want1, was: fleet.Observation{State: ready}, seen: fleet.Seen{Models: []vllm.Model{base, v1}, Changed: map[string]string{"demo-v1": "changed"}}, state: ready, reason: "serves demo-v1: changed"},
		{name: "recorded", want: recorded, was: fleet.Observation{State: ready}, seen: fleet.Seen{Models: []vllm.Model{base, v1}, Records: map[string]fleet.LoadRecord{"demo-v1": {Path: "/adapters/demo-v1", Digest: "d"}}}, state: ready},
		{name: "somebody else's, from the same path", want: recorded, was: fleet.Observation{State: ready}, seen: fleet.Seen{Models: []vllm.Model{base, v1}, Records: map[string]fleet.LoadRecord{}}, state: ready, reason: "not by this deployment"},
		{name: "loaded when it was other weights", want: recorded, was: fleet.Observation{State: ready}, seen: fleet.Seen{Models: []vllm.Model{base, v1}, Records: map[string]fleet.LoadRecord{"demo-v1": {Path: "/adapters/demo-v1", Digest: "old"}}}, state: ready, reason: "other weights"},
		{name: "what was written down is not known", want: recorded, was: fleet.Observation{State: ready}, seen: fleet.Seen{Models: []vllm.Model{base, v1}}, state: ready},
		{name: "ready, load failed lately", want: want1, was: fleet.Observation{State: ready}, seen: fleet.Seen{Models: []vllm.Model{base}, Failed: map[string]string{"demo-v1": "rank 64"}}, state: ready, reason: "rank 64"},
		{name: "same name from elsewhere", want: want1, was: fleet.Observation{State: ready}, seen: fleet.Seen{Models: []vllm.Model{base, foreign}}, state: ready, reason: "/old/demo-v1"},
		{name: "retired", want: fleet.Desired{Adapters: []fleet.Adapter{adapter(2)}, Retired: []string{"demo-v0", "demo-v1"}}, was: fleet.Observation{State: ready}, seen: fleet.Seen{Models: []vllm.Model{base, v1, v2}}, state: ready, unload: []string{"demo-v1"}},
		{name: "draining, busy", want: fleet.Desired{Drain: true, Adapters: want1.Adapters}, was: fleet.Observation{State: ready}, seen: fleet.Seen{Models: []vllm.Model{base, v1}}, state: draining},
		{name: "draining, idle", want: fleet.Desired{Drain: true, Adapters: want1.Adapters}, was: fleet.Observation{State: draining}, seen: fleet.Seen{Models: []vllm.Model{base, v1}, Idle: true}, state: draining, reason: "drained", unload: []string{"demo-v1"}},
		{name: "draining, unloaded: nothing is loaded again", want: fleet.Desired{Drain: true, Adapters: want1.Adapters}, was: fleet.Observation{State: draining}, seen: fleet.Seen{Models: []vllm.Model{base}, Idle: true}, state: draining, reason: "drained"},
		{name: "drain taken back", want: want1, was: fleet.Observation{State: draining}, seen: fleet.Seen{Models: []vllm.Model{base}}, state: loading, reason: "loading", load: []string{"demo-v1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := fleet.Decide(tt.want, tt.was, tt.seen, 3)
			var load []string
			for _, a := range p.Load {
				load = append(load, a.Name)
			}
			if p.State != tt.state || !slices.Equal(load, tt.load) || !slices.Equal(p.Unload, tt.unload) {
				t.Errorf("got %s, load %v, unload %v; want %s, load %v, unload %v", p.State, load, p.Unload, tt.state, tt.load, tt.unload)
			}
			if p.Canary != tt.canary {
				t.Errorf("canary %v", p.Canary)
			}
			if (tt.reason == "") != (p.Reason == "") || !strings.Contains(p.Reason, tt.reason) {
				t.Errorf("reason %q, want one with %q", p.Reason, tt.reason)
			}
		})
	}
}
