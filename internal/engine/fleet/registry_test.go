package fleet_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/store/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

func newRegistry(t *testing.T) *fleet.Registry {
	t.Helper()
	return fleet.NewRegistry(newRedis(t), "test", time.Now)
}

func TestNewMember(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		give  enginestate.Engine
		id    rollout.EngineID
		url   string
		limit int
		bad   bool
	}{
		{name: "all given", give: enginestate.Engine{ID: "gpu-1", URL: "http://10.0.0.5:8000", MaxInFlight: 64}, id: "gpu-1",
			url: "http://10.0.0.5:8000", limit: 64},
		{name: "id and limit left out", give: enginestate.Engine{URL: "http://Host:8000/"}, id: "host:8000",
			url: "http://host:8000", limit: fleet.DefaultMaxInFlight},
		{name: "with /v1", give: enginestate.Engine{URL: "https://host/pool/v1"}, id: "host", url: "https://host/pool",
			limit: fleet.DefaultMaxInFlight},
		{name: "IPv6", give: enginestate.Engine{URL: "http://[::1]:8000"}, id: "1:8000", url: "http://[::1]:8000",
			limit: fleet.DefaultMaxInFlight},
		{name: "the scheme's own port", give: enginestate.Engine{URL: "http://host:80"}, id: "host", url: "http://host",
			limit: fleet.DefaultMaxInFlight},
		{name: "an empty port", give: enginestate.Engine{URL: "https://[::1]:/v1"}, id: "1", url: "https://[::1]",
			limit: fleet.DefaultMaxInFlight},
		{name: "the other scheme's port", give: enginestate.Engine{URL: "https://host:80"}, id: "host:80",
			url: "https://host:80", limit: fleet.DefaultMaxInFlight},
		{name: "no scheme", give: enginestate.Engine{URL: "10.0.0.5:8000"}, bad: true},
		{name: "no host", give: enginestate.Engine{URL: "http://:8000"}, bad: true},
		{name: "port beyond the last", give: enginestate.Engine{URL: "http://host:70000"}, bad: true},
		{name: "other scheme", give: enginestate.Engine{URL: "redis://host:6379"}, bad: true},
		{name: "credentials", give: enginestate.Engine{URL: "http://me:secret@host"}, bad: true},
		{name: "empty", bad: true},
		{name: "id with a slash", give: enginestate.Engine{ID: "a/b", URL: "http://host"}, bad: true},
		{name: "negative limit", give: enginestate.Engine{URL: "http://host", MaxInFlight: -1}, bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, err := fleet.NewMember(tt.give, time.Unix(1, 0))
			if tt.bad {
				if !rollout.Refused(err, rollout.Invalid) {
					t.Fatalf("got %+v, %v; want a refusal", m, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if m.ID != tt.id || m.URL != tt.url || m.MaxInFlight != tt.limit {
				t.Errorf("got %+v", m)
			}
		})
	}
}

func TestRegistryMembership(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := newRegistry(t)
	a := enginestate.Engine{ID: "a", URL: "http://a:1", MaxInFlight: 4}
	if _, err := r.Add(ctx, a); err != nil {
		t.Fatal(err)
	}
	again, err := r.Add(ctx, enginestate.Engine{ID: "a", URL: "http://a:1/"})
	if err != nil || again.MaxInFlight != 4 {
		t.Errorf("adding again: %+v, %v; want the same engine", again, err)
	}
	if _, err := r.Add(ctx, enginestate.Engine{ID: "a", URL: "http://b:1"}); !rollout.Refused(err, rollout.Conflict) {
		t.Errorf("same id, other address: %v", err)
	}
	if _, err := r.Add(ctx, enginestate.Engine{ID: "b", URL: "http://a:1"}); !rollout.Refused(err, rollout.Conflict) {
		t.Errorf("second id for one address: %v", err)
	}
	for _, pair := range [][2]string{{"localhost:7", "127.0.0.1:7"}, {"127.0.0.1:8", "[::1]:8"},
		{"[::1]", "LOCALHOST"}, {"localhost", "127.0.0.1:80"}} {
		here := newRegistry(t)
		if _, err := here.Add(ctx, enginestate.Engine{ID: "first", URL: "http://" + pair[0]}); err != nil {
			t.Fatal(err)
		}
		_, err := here.Add(ctx, enginestate.Engine{ID: "second", URL: "http://" + pair[1]})
		if !rollout.Refused(err, rollout.Conflict) || !strings.Contains(err.Error(), "as engine first") {
			t.Errorf("%s beside %s: %v", pair[1], pair[0], err)
		}
		if _, err := here.Add(ctx, enginestate.Engine{ID: "second", URL: "http://127.0.0.1:9"}); err != nil {
			t.Errorf("another port beside %s: %v", pair[0], err)
		}
	}
	if err := r.Observe(ctx, "a", fleet.Observation{State: enginestate.EngineReady}); err != nil {
		t.Fatal(err)
	}
	if err := r.Drain(ctx, "a", false); err != nil {
		t.Fatal(err)
	}
	if e, _ := r.Get(ctx, "a"); e.State != enginestate.EngineDraining {
		t.Errorf("drained engine is %s", e.State)
	}
	if err := r.Remove(ctx, "a", true); err != nil {
		t.Fatal(err)
	}
	if e, _ := r.Get(ctx, "a"); e.State != enginestate.EngineDraining || !e.Recalled {
		t.Errorf("an engine that leaves at once is %+v; want it draining, with its requests recalled", e)
	}
	again, err = r.Add(ctx, a)
	if err != nil || again.State != enginestate.EngineReady || again.Recalled {
		t.Errorf("added while leaving: %+v, %v; want it ready as before", again, err)
	}
	if err := r.Observe(ctx, "a", fleet.Observation{State: enginestate.EngineReady}); err != nil {
		t.Errorf("late observation: %v", err)
	}
	for name, call := range map[string]func() error{
		"get":    func() error { _, err := r.Get(ctx, "z"); return err },
		"drain":  func() error { return r.Drain(ctx, "z", false) },
		"remove": func() error { return r.Remove(ctx, "z", true) },
	} {
		if err := call(); !rollout.Refused(err, rollout.NoSuchEngine) {
			t.Errorf("%s of an unknown engine: %v", name, err)
		}
	}
}

func TestRegistryAdapters(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := newRegistry(t)
	for _, v := range []rollout.PolicyVersion{10, 2, 2} {
		if err := r.Want(ctx, adapter(v)); err != nil {
			t.Fatal(err)
		}
	}
	moved := adapter(2)
	moved.Path = "/elsewhere"
	if err := r.Want(ctx, moved); !rollout.Refused(err, rollout.Conflict) {
		t.Errorf("other weights under an old name: %v", err)
	}
	if err := r.Want(ctx, fleet.Adapter{Name: "x"}); !rollout.Refused(err, rollout.Invalid) {
		t.Errorf("adapter without a path: %v", err)
	}
	wanted, err := r.Wanted(ctx)
	if err != nil || !slices.Equal(wanted, []fleet.Adapter{adapter(2), adapter(10)}) {
		t.Errorf("wanted %v, %v", wanted, err)
	}
	if err := r.Unwant(ctx, "demo-v2"); err != nil {
		t.Fatal(err)
	}
	if names, _ := r.Retired(ctx); !slices.Equal(names, []string{"demo-v2"}) {
		t.Errorf("retired %v", names)
	}
	if err := r.Want(ctx, adapter(2)); err != nil {
		t.Fatal(err)
	}
	if names, _ := r.Retired(ctx); len(names) != 0 {
		t.Errorf("wanted again, yet retired: %v", names)
	}
}

func TestRegistryLoaded(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := newRegistry(t)
	if _, err := r.Add(ctx, enginestate.Engine{ID: "a", URL: "http://a:1"}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []rollout.EngineID{"a", "a", "gone"} {
		if err := r.Loaded(ctx, id, "demo-v1"); err != nil {
			t.Fatal(err)
		}
	}
	if e, _ := r.Get(ctx, "a"); !slices.Equal(e.Adapters, []string{"demo-v1"}) {
		t.Errorf("adapters %v", e.Adapters)
	}
}

func TestSlotNotes(t *testing.T) {
	t.Parallel()
	engines := []enginestate.Engine{{ID: "a", AdapterSlots: 4}, {ID: "b", AdapterSlots: 6}, {ID: "c"}}
	notes := fleet.SlotNotes(engines, 6)
	if len(notes) != 1 || !strings.Contains(notes[0], "engine a") || !strings.Contains(notes[0], "--max-loras 6") ||
		!strings.Contains(notes[0], "league.slots") {
		t.Errorf("notes %q", notes)
	}
}
