package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// tokens of the tests: each is the name of its holder, made long enough.
func tokenOf(name string) string { return name + "-token-of-this-test" }

// grantLine is a line of a tokens file.
func grantLine(name, role, runs string) string {
	if runs != "" {
		runs = ", runs: [" + runs + "]"
	}
	return fmt.Sprintf("  - {name: %s, role: %s%s, sha256: %s}\n", name, role, runs, access.HashOf(tokenOf(name)))
}

// guarded is a server with an operator, a trainer of runs a-*, a reader of runs b-*, and a reader of all, and with
// the runs a-1 and b-1.
func guarded(t *testing.T) (s *served, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "tokens.yaml")
	writeTokens(t, file, grantLine("op", "operator", "")+grantLine("train", "trainer", `"a-*"`)+grantLine("read", "reader",
		`"b-*"`)+grantLine("all", "reader", `"*"`))
	s = serveAPI(t, "auth: {tokens_file: "+file+"}\n", map[string]string{"MILLRACE_TOKENS": tokenOf("old")})
	store := s.store()
	s.open(store, "a-1")
	s.open(store, "b-1")
	return s, file
}

func writeTokens(t *testing.T, file, lines string) {
	t.Helper()
	next := file + ".next"
	if err := os.WriteFile(next, []byte("tokens:\n"+lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		t.Fatal(err)
	}
}

// TestEveryOperationAsksForARole: the lists below are all operations of the document, so that a new one needs a
// line here; whoever has less than its role, or other runs, is refused.
func TestEveryOperationAsksForARole(t *testing.T) {
	t.Parallel()
	s, _ := guarded(t)
	const fleet, run, own, key = "the fleet", "a run", "each his own", "the key of a lease"
	needs := map[string]struct{ role, about string }{
		"start-run": {"operator", fleet}, "list-runs": {"reader", own}, "show-run": {"reader", run},
		"change-run": {"operator", run},
		"stop-run":   {"operator", run}, "delete-run": {"operator", run}, "list-waits": {"reader", run},
		"attach-trainer": {"trainer", run}, "claim-step": {"trainer", run}, "send-heartbeat": {"trainer", run},
		"complete-step": {"trainer", run},
		"list-steps":    {"reader", run}, "show-step": {"reader", run}, "show-batch": {"reader", run},
		"publish-policy": {"trainer", run}, "list-policies": {"reader", run}, "show-policy": {"reader", run},
		"list-engines": {"reader", fleet}, "show-engine": {"reader", fleet}, "add-engine": {"operator", fleet},
		"drain-engine": {"operator", fleet}, "remove-engine": {"operator", fleet},
		"list-workers": {"reader", fleet},
		"show-fleet":   {"reader", fleet}, "change-fleet": {"operator", fleet},
		"probe-run": {"operator", run}, "end-probe": {"operator", run},
		"show-status": {"reader", own}, "list-dead-letters": {"reader", fleet},
		"replay-dead-letters": {"operator", fleet}, "drop-dead-letters": {"operator", fleet},
		"forget-sink":   {"operator", fleet},
		"follow-events": {"reader", run}, "follow-fleet-events": {"reader", fleet}, "diagnose-run": {"reader", run},
		"show-game": {"reader", run}, "list-games": {"reader", run}, "list-turns": {"reader", run},
		"show-turn": {"reader", run}, "show-curve": {"reader", run},
		"show-ratings":     {"reader", run},
		"start-evaluation": {"operator", run}, "list-evaluations": {"reader", run}, "lease-game": {"trainer", run},
		"chat-in-game": {key, run}, "message-in-game": {key, run}, "live-in-game": {key, run}, "end-game": {key, run},
		"fail-game": {key, run}, "complete-at-fleet": {"trainer", run}, "chat-at-fleet": {"trainer", run},
		"generate-at-fleet": {"trainer", run}, "list-fleet-models": {"trainer", run}, "load-adapter": {"trainer", run},
		"unload-adapter": {"trainer", run}, "pause-fleet-calls": {"trainer", run}, "resume-fleet-calls": {"trainer", run},
	}
	rank := map[string]int{"reader": 1, "trainer": 2, "operator": 3}
	seen := map[string]bool{}
	for id, op := range s.operations() {
		need, known := needs[id]
		if !known {
			t.Errorf("operation %s (%s %s) is in no list: say which role it needs", id, op.method, op.path)
			continue
		}
		seen[id] = true
		for _, who := range []struct {
			name, role, run string
			all             bool
		}{{"train", "trainer", "a-1", false}, {"read", "reader", "b-1", false}, {"all", "reader", "", true},
			{"op", "operator", "", true}, {"old", "operator", "", true}} {
			for _, target := range []string{"a-1", "b-1"} {
				allowed := rank[who.role] >= rank[need.role] &&
					(need.about == own || who.all || need.about == run && who.run == target)
				path := strings.NewReplacer("{run}", target, "{step}", "0", "{version}", "1", "{id}", "none", "{group}", "0",
					"{episode}", "0", "{sink}", "axiom").Replace(op.path)
				got, err := s.call(op.method, path, tokenOf(who.name), "")
				if err != nil {
					t.Fatal(err)
				}
				if need.role == key {
					if got.status != http.StatusGone && got.status != http.StatusTooManyRequests {
						t.Errorf("%s by %s without a lease: status %d: %s", id, who.name, got.status, got.body)
					}
					continue
				}
				if (got.status != http.StatusForbidden) != allowed {
					t.Errorf("%s by %s about %s: status %d; allowed: %v: %s", id, who.name, target, got.status, allowed, got.body)
				}
			}
		}
	}
	for id := range needs {
		if !seen[id] {
			t.Errorf("there is no operation %s", id)
		}
	}
	s.want(http.StatusForbidden, "GET", "/metrics", tokenOf("train"), "")
	s.want(http.StatusOK, "GET", "/metrics", tokenOf("all"), "")
	if got := s.want(http.StatusOK, "GET", "/v1/runs", tokenOf("train"), "").body; !strings.Contains(got, "a-1") ||
		strings.Contains(got, "b-1") {
		t.Errorf("a trainer of a-* is shown %s", got)
	}
	if got := s.want(http.StatusForbidden, "POST", "/v1/runs/a-1/stop", tokenOf("train"),
		"").body; !strings.Contains(got, "operator") {
		t.Errorf("a refusal does not say what is missing: %s", got)
	}
}

type operation struct{ method, path string }

// operations is every operation of the server's own document.
func (s *served) operations() map[string]operation {
	s.t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		}
	}
	if err := json.Unmarshal([]byte(s.want(http.StatusOK, "GET", "/openapi.json", tokenOf("op"), "").body),
		&doc); err != nil {
		s.t.Fatal(err)
	}
	all := map[string]operation{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			all[op.OperationID] = operation{strings.ToUpper(method), path}
		}
	}
	return all
}

// TestTokensAreReadAgain: a new file counts within moments, a faulty or missing one changes nothing and is logged,
// and SIGHUP reads at once instead of ending the server.
func TestTokensAreReadAgain(t *testing.T) { // not parallel: SIGHUP is for the whole process
	s, file := guarded(t)
	s.want(http.StatusUnauthorized, "GET", "/v1/runs", tokenOf("new"), "")
	writeTokens(t, file, grantLine("new", "reader", `"*"`))
	s.until("the new token counts", func() bool {
		got, err := s.call("GET", "/v1/runs", tokenOf("new"), "")
		return err == nil && got.status == http.StatusOK
	})
	if got, err := s.call("GET", "/v1/runs", tokenOf("read"), ""); err != nil || got.status == http.StatusOK {
		t.Errorf("a token that the new file does not have: %d, %v", got.status, err)
	}
	s.want(http.StatusOK, "GET", "/v1/runs", tokenOf("old"), "") // of MILLRACE_TOKENS

	if err := os.WriteFile(file, []byte("tokens: [{name: "), 0o600); err != nil {
		t.Fatal(err)
	}
	s.until("the fault is logged", func() bool { return strings.Contains(s.log.String(), "stays in force") })
	s.want(http.StatusOK, "GET", "/v1/runs", tokenOf("new"), "")

	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.until("SIGHUP is heard", func() bool { return strings.Contains(s.log.String(), "SIGHUP") })
	s.want(http.StatusOK, "GET", "/v1/runs", tokenOf("new"), "")
}

// TestEveryChangeIsAudited: every operation that changes something, as an operator asks for it and as somebody
// refused, leaves one event that says who, from where and what; what a trainer sends at each step leaves none, nor
// what a program sends in each game.
func TestEveryChangeIsAudited(t *testing.T) {
	t.Parallel()
	s, _ := guarded(t)
	silent := map[string]bool{"claim-step": true, "send-heartbeat": true, "complete-step": true,
		"lease-game": true, "chat-in-game": true, "message-in-game": true, "live-in-game": true, "end-game": true,
		"fail-game": true, "complete-at-fleet": true, "chat-at-fleet": true, "generate-at-fleet": true,
		"load-adapter": true, "unload-adapter": true, "pause-fleet-calls": true, "resume-fleet-calls": true}
	asked := map[string]bool{}
	for id, op := range s.operations() {
		if op.method == http.MethodGet {
			continue
		}
		path := strings.NewReplacer("{run}", "b-1", "{step}", "0", "{version}", "1", "{id}", "none").Replace(op.path)
		for _, who := range []string{"op", "train"} {
			if _, err := s.call(op.method, path, tokenOf(who), ""); err != nil {
				t.Fatal(err)
			}
			asked[id+" "+who] = !silent[id]
		}
	}
	s.until("every change is in the events", func() bool {
		found := map[string]int{}
		for _, a := range append(s.audits("/v1/runs/b-1/events"), s.audits("/v1/events")...) {
			if a.From != "127.0.0.1" || a.RequestID == "" || a.Role == "" || a.Status == 0 {
				t.Fatalf("an audit lacks something: %+v", a)
			}
			found[a.What+" "+a.Who]++
		}
		for key, want := range asked {
			if want != (found[key] == 1) {
				return false
			}
		}
		return true
	})
}

// audits is the audits among the events at a path.
func (s *served) audits(path string) []telemetry.Audit {
	s.t.Helper()
	var list struct {
		Events []struct{ Data json.RawMessage }
	}
	if err := json.Unmarshal([]byte(s.want(http.StatusOK, "GET", path+"?limit=1000", tokenOf("op"), "").body),
		&list); err != nil {
		s.t.Fatal(err)
	}
	var all []telemetry.Audit
	for _, e := range list.Events {
		if event, err := telemetry.Decode(e.Data); err == nil {
			if a, is := event.Body.(telemetry.Audit); is {
				all = append(all, a)
			}
		}
	}
	return all
}

// TestAnAuditSaysWhatWasAndWhatIs: only what became different.
func TestAnAuditSaysWhatWasAndWhatIs(t *testing.T) {
	t.Parallel()
	s, _ := guarded(t)
	s.want(http.StatusOK, "PUT", "/v1/engines/gpu-1", tokenOf("op"), `{"url":"http://127.0.0.1:1","max_in_flight":4}`)
	s.want(http.StatusOK, "PUT", "/v1/engines/gpu-1", tokenOf("op"), `{"url":"http://127.0.0.1:1","max_in_flight":9}`)
	s.want(http.StatusOK, "POST", "/v1/runs/a-1/trainer", tokenOf("train"), "")
	s.until("the audits are there", func() bool {
		return len(s.audits("/v1/events")) == 2 && len(s.audits("/v1/runs/a-1/events")) == 1
	})
	again := s.audits("/v1/events")[1]
	if again.Target != "engine gpu-1" || len(again.Before) != 1 || again.Before["max_in_flight"] != "4" ||
		again.After["max_in_flight"] != "9" {
		t.Errorf("an engine's limit was changed from 4 to 9: %+v", again)
	}
	attached := s.audits("/v1/runs/a-1/events")[0]
	if attached.Who != "train" || attached.Role != "trainer" || attached.Before["generation"] != "0" ||
		attached.After["generation"] != "1" {
		t.Errorf("a trainer has attached: %+v", attached)
	}
	if !strings.Contains(s.log.String(), "msg=audit what=add-engine target=\"engine gpu-1\" who=op") {
		t.Errorf("the log does not say who added an engine:\n%s", s.log)
	}
}
