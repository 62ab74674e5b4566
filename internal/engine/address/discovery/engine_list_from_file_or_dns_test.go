package discovery

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

func TestParseSource(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"file:/etc/engines": true, "file:engines": false, "dns:vllm.internal:8000": true, "dns:vllm": false,
		"http://a:1": false, "": false,
	} {
		if _, err := ParseSource(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	const list = "file:/engines"
	member := func(id, source string, leaves bool) fleet.Member {
		return fleet.Member{
			ID: rollout.EngineID(id), URL: "http://" + id + ":8000", Source: source, Leave: leaves, Drain: leaves,
		}
	}
	engine := func(id string) enginestate.Engine { return enginestate.Engine{URL: "http://" + id + ":8000/"} }
	for _, tt := range []struct {
		name    string
		members []fleet.Member
		listed  []enginestate.Engine
		join    string
		leave   string
	}{
		{"first reading", nil, []enginestate.Engine{engine("a"), engine("b")}, "a b", ""},
		{"nothing new", []fleet.Member{member("a", list, false)}, []enginestate.Engine{engine("a")}, "", ""},
		{"one more, one less", []fleet.Member{member("a", list, false)}, []enginestate.Engine{engine("b")}, "b", "a"},
		{"an operator's engine stays", []fleet.Member{member("a", "", false), member("b", "dns:x:1", false)},
			[]enginestate.Engine{engine("c")}, "c", ""},
		{"one that was leaving is back", []fleet.Member{member("a", list, true)}, []enginestate.Engine{engine("a")}, "a", ""},
		{"one that an operator removes", []fleet.Member{member("a", "", true)}, []enginestate.Engine{engine("a")}, "", ""},
		{"already leaving", []fleet.Member{member("a", list, true)}, []enginestate.Engine{engine("b")}, "b", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			join, leave := Difference(tt.members, tt.listed, list)
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
	write := func(text string) { // in one piece: the follower may be reading
		if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	source, err := ParseSource("file:" + path)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		registry := newRegistry(t)
		if _, err := registry.Add(t.Context(), enginestate.Engine{URL: "http://c:8000"}); err != nil {
			t.Fatal(err)
		}
		steps := []struct {
			text, stay, leave, complains string
		}{
			{"http://a:8000 max_in_flight=16 # the big one\n\nhttp://b:8000 id=bee\n", "a:8000 bee c:8000", "", ""},
			{"http://a:8000 max=16\n", "a:8000 bee c:8000", "", "line 1"},
			{"# all gone\n", "a:8000 bee c:8000", "", "lists no engine"},
			{"http://b:8000 id=bee\n", "bee c:8000", "a:8000", ""},
		}
		write(steps[0].text)
		var mu sync.Mutex
		var complaints []string
		go Follower{Source: source, Registry: registry, Complain: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			complaints = append(complaints, err.Error())
		}}.Run(t.Context())
		for _, step := range steps {
			write(step.text)
			mu.Lock()
			complaints = nil
			mu.Unlock()
			time.Sleep(20 * time.Second)
			synctest.Wait()
			stay, leave := listMembers(t, registry, func(m fleet.Member) string { return string(m.ID) })
			mu.Lock()
			said := strings.Join(complaints, " ")
			mu.Unlock()
			if stay != step.stay || leave != step.leave || (step.complains == "") != (said == "") ||
				!strings.Contains(said, step.complains) {
				t.Errorf("after %q: %q, leaving %q, complaints %q; want %q and %q",
					step.text, stay, leave, said, step.stay, step.leave)
			}
		}
	})
}

// listMembers shows the members that stay, and those that leave, by id.
func listMembers(t *testing.T, registry *fleet.Registry, show func(fleet.Member) string) (stay, leave string) {
	t.Helper()
	members, err := registry.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var stays, leaves []string
	for _, m := range members {
		if m.Leave {
			leaves = append(leaves, show(m))
		} else {
			stays = append(stays, show(m))
		}
	}
	return strings.Join(stays, " "), strings.Join(leaves, " ")
}

// newRegistry is a fleet on an embedded Redis, which lives in the test's synctest bubble, if it has one.
func newRegistry(t *testing.T) *fleet.Registry {
	t.Helper()
	server := miniredis.NewMiniRedis()
	rdb := redis.NewClient(&redis.Options{
		Addr:            "127.0.0.1:6379", // not dialled
		Dialer:          func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
		DisableIdentity: true,
		PoolSize:        4096, // nobody waits for a connection, which go-redis would time outside of the bubble
	})
	t.Cleanup(func() {
		_ = rdb.Close()
		server.Close()
	})
	return fleet.NewRegistry(rdb, "test", time.Now)
}

// FuzzEngineList: every engine of a list that is taken can be a member, and one reading of the list brings in all
// of it.
func FuzzEngineList(f *testing.F) {
	for _, list := range []string{
		"http://10.0.0.5:8000\nhttp://10.0.0.6:8000 max_in_flight=64 id=gpu7\n",
		"# all of rack 3\r\n\r\nhttps://Host/pool/v1  id=a # the fast one\r\n",
		"http://[::1]:8000\nhttp://[fe80::1%25eth0]:8000 max_in_flight=0",
		"http://a:1 max_in_flight=-1", "http://a:1 weight=3", "10.0.0.5:8000", "http://a:1 id=",
		"http://a:1\nhttp://a:1/v1/\n",
		strings.Repeat("x", 70_000),
	} {
		f.Add([]byte(list))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		listed, err := parseList(data)
		if err != nil {
			return
		}
		var members []fleet.Member
		for _, e := range listed {
			m, err := fleet.NewMember(e, time.Time{})
			if err != nil {
				t.Fatalf("%q lists %+v: %v", data, e, err)
			}
			if _, err := fleet.NewMember(enginestate.Engine{ID: m.ID, URL: "http://a:1"}, time.Time{}); err != nil ||
				m.MaxInFlight < 1 {
				t.Errorf("%q makes %+v: %v", data, m, err)
			}
			m.Source = "file:/engines"
			members = append(members, m)
		}
		if join, leave := Difference(members, listed, "file:/engines"); len(join)+len(leave) > 0 {
			t.Errorf("%q, read again: join %v, leave %v", data, join, leave)
		}
	})
}
