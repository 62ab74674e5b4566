package activities

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.temporal.io/sdk/testsuite"

	"github.com/millrace/millrace/internal/engine/adapterfiles"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling/scaledfleet"
)

// registered is a real registry, without engines that could load anything.
type registered struct{ scaledfleet.Registry }

func (registered) Load(context.Context, rollout.EngineID, fleet.Adapter) (float64, error) {
	return 0, nil
}
func (registered) Unload(context.Context, rollout.EngineID, string) error { return nil }
func (registered) Keep(context.Context, func()) error                     { return nil }

type muted struct{}

func (muted) Emit(telemetry.Event) {}

func (muted) Tell(context.Context, telemetry.Event) error { return nil }

func writePEFT(t *testing.T) (path string) {
	t.Helper()
	path = t.TempDir()
	for name, text := range map[string]string{
		"adapter_config.json":       `{"peft_type":"LORA","r":8,"target_modules":["q_proj"]}`,
		"adapter_model.safetensors": string(bytes.Repeat([]byte{7}, 64)),
	} {
		if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// What an emptied Redis is told again: the versions that serve and the fixed policies, each with the digest it had;
// not the base model, nor what is retired.
func TestAdaptersComeBackAfterRedisIsEmptied(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { rdb.Close() })
	registry := scaledfleet.Registry{Registry: fleet.NewRegistry(rdb, "test", time.Now)}
	acts := &Activities{Fleet: registered{registry}, Emit: muted{}, Tell: muted{}, Now: time.Now}
	fixed := writePEFT(t)
	prefix := filepath.Dir(fixed)
	found, err := adapterfiles.NewReader().Inspect(t.Context(), prefix, fixed, 8)
	if err != nil || found.Digest == "" {
		t.Fatalf("%+v %v", found, err)
	}
	spec := runspec.Spec{
		Name: "r", Model: "m", Steps: 9, Buffer: runspec.BufferSpec{Depth: 1, GroupsPerStep: 1, OnStale: runspec.DropStale},
		Adapters: runspec.AdapterSpec{Rank: 8, PathPrefix: prefix},
		Policies: []runspec.FixedPolicy{{Name: "old", Path: fixed}, {Name: "gone", Path: "/nowhere"}, {Name: "base"}},
	}
	in := RestoreInput{Spec: spec, Key: "r/change/1", Status: runstatus.RunStatus{
		Spec: spec, State: runstatus.RunRunning, NextStep: 3, PolicyVersion: 3, Launched: 7,
		Policies: []runstatus.Policy{
			{Version: 1, Adapter: "r-v1", Path: "/a/1", State: runstatus.PolicyRetired, Digest: "d1"},
			{Version: 2, Adapter: "r-v2", Path: "/a/2", State: runstatus.PolicyServing, Digest: "d2"},
			{Version: 3, Adapter: "r-v3", Path: "/a/3", State: runstatus.PolicyServing, Digest: "d3"},
		},
	}}
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.RegisterActivity(acts)
	if _, err := env.ExecuteActivity(acts.AssertAdapters, in); err != nil {
		t.Fatal(err)
	}
	want := map[string]fleet.Adapter{
		"r-v2":   {Run: "r", Version: 2, Name: "r-v2", Path: "/a/2", Base: "m", Digest: "d2", Prefix: prefix},
		"r-v3":   {Run: "r", Version: 3, Name: "r-v3", Path: "/a/3", Base: "m", Digest: "d3", Prefix: prefix},
		"r:old":  {Run: "r", Name: "r:old", Path: fixed, Base: "m", Digest: found.Digest, Prefix: prefix},
		"r:gone": {Run: "r", Name: "r:gone", Path: "/nowhere", Base: "m", Prefix: prefix},
	}
	wants := func(t *testing.T) {
		t.Helper()
		wanted, err := registry.Wanted(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]fleet.Adapter{}
		for _, a := range wanted {
			got[a.Name] = a
		}
		if !maps.Equal(got, want) {
			t.Errorf("wanted are %+v, want %+v", got, want)
		}
	}
	wants(t)

	// The fleet's Redis alone goes back: to before one version was published, and before others were retired.
	if err := rdb.HDel(t.Context(), "test:{fleet}:adapters", "r-v3", "r:gone").Err(); err != nil {
		t.Fatal(err)
	}
	for _, a := range []fleet.Adapter{
		{Run: "r", Version: 1, Name: "r-v1", Path: "/a/1"},
		{Run: "r", Version: 12, Name: "r-v12", Path: "/a/12"}, // is being published
	} {
		if err := registry.Want(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if a.Version > 3 {
			want[a.Name] = a
		}
	}
	if _, err := env.ExecuteActivity(acts.AssertAdapters, in); err != nil {
		t.Fatal(err)
	}
	wants(t)
}
