package fleet_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/fleet"
	"github.com/millrace/millrace/internal/rollout"
)

func TestParseSource(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"file:/etc/engines": true, "file:engines": false, "dns:vllm.internal:8000": true, "dns:vllm": false, "http://a:1": false, "": false,
	} {
		if _, err := fleet.ParseSource(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	const list = "file:/engines"
	member := func(id, source string, leaves bool) fleet.Member {
		return fleet.Member{ID: rollout.EngineID(id), URL: "http://" + id + ":8000", Source: source, Leave: leaves, Drain: leaves}
	}
	engine := func(id string) rollout.Engine { return rollout.Engine{URL: "http://" + id + ":8000/"} }
	for _, tt := range []struct {
		name    string
		members []fleet.Member
		listed  []rollout.Engine
		join    string
		leave   string
	}{
		{"first reading", nil, []rollout.Engine{engine("a"), engine("b")}, "a b", ""},
		{"nothing new", []fleet.Member{member("a", list, false)}, []rollout.Engine{engine("a")}, "", ""},
		{"one more, one less", []fleet.Member{member("a", list, false)}, []rollout.Engine{engine("b")}, "b", "a"},
		{"an operator's engine stays", []fleet.Member{member("a", "", false), member("b", "dns:x:1", false)}, []rollout.Engine{engine("c")}, "c", ""},
		{"one that was leaving is back", []fleet.Member{member("a", list, true)}, []rollout.Engine{engine("a")}, "a", ""},
		{"one that an operator removes", []fleet.Member{member("a", "", true)}, []rollout.Engine{engine("a")}, "", ""},
		{"already leaving", []fleet.Member{member("a", list, true)}, []rollout.Engine{engine("b")}, "b", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			join, leave := fleet.Difference(tt.members, tt.listed, list)
			var joins, leaves []string
			for _, e := range join {
				joins = append(joins, strings.TrimSuffix(strings.TrimPrefix(e.URL, "http://"), ":8000/"))
			}
			for _, id := range leave {
				leaves = append(leaves, string(id))
			}
			if strings.Join(joins, " ") != tt.join || strings.Join(leaves, " ") != tt.leave {
				t.Errorf("join %v, leave %v; want %q and %q", joins, leaves, tt.join, tt.leave)
			}
		})
	}
}

func TestFollowAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "engines")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	source, err := fleet.ParseSource("file:" + path)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		rig := newRig(t, "c")
		for _, id := range []string{"a", "b"} {
			e := newFakeEngine()
			rig.clients["http://"+id+":8000"] = e
		}
		var mu sync.Mutex
		var complaints []string
		go rig.registry.Follow(t.Context(), source, 10*time.Second, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			complaints = append(complaints, err.Error())
		})
		for _, step := range []struct {
			text      string
			ids       []rollout.EngineID
			complains string
		}{
			{"http://a:8000 max_in_flight=16 # the big one\n\nhttp://b:8000 id=bee\n", []rollout.EngineID{"a:8000", "bee", "c"}, ""},
			{"http://a:8000 max=16\n", []rollout.EngineID{"a:8000", "bee", "c"}, "line 1"},
			{"# all gone\n", []rollout.EngineID{"a:8000", "bee", "c"}, "lists no engine"},
			{"http://b:8000 id=bee\n", []rollout.EngineID{"bee", "c"}, ""},
		} {
			write(step.text)
			mu.Lock()
			complaints = nil
			mu.Unlock()
			time.Sleep(20 * time.Second)
			synctest.Wait()
			engines, err := rig.registry.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var ids []rollout.EngineID
			for _, e := range engines {
				ids = append(ids, e.ID)
			}
			mu.Lock()
			said := strings.Join(complaints, " ")
			mu.Unlock()
			if !slices.Equal(ids, step.ids) || (step.complains == "") != (said == "") || !strings.Contains(said, step.complains) {
				t.Errorf("after %q: %v, complaints %q; want %v", step.text, ids, said, step.ids)
			}
		}
	})
}
