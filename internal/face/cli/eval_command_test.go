package cli

import (
	"strings"
	"testing"
)

// TestEvaluationAgainstModelElsewhere: the question says where the model is, and what keeps its games from being played
// is told while the command waits.
func TestEvaluationAgainstModelElsewhere(t *testing.T) {
	t.Parallel()
	const path, name = "/v1/runs/demo/evaluations", "demo-eval-v12-policy-gpt"
	got, s := command(t, map[string]reply{
		"POST " + path: {201, `{"spec":{"name":"` + name + `"},"state":"running"}`},
		"GET /v1/runs/" + name: {200, `{"spec":{"name":"` + name + `"},"state":"stopped","reason":"no key",` +
			`"alarms":[{"code":"games_fail","text":"every game fails: status 401","advice":"give it a key"}]}`},
	}, "", nil, "eval", "demo", "--version", "12", "--against", "policy:gpt", "--games", "8",
		"--url", "https://api.example.com/v1", "--model", "gpt-x", "--max-tokens", "900")
	want := "POST " + path + ` {"version":12,"against":"policy:gpt","url":"https://api.example.com/v1","model":"gpt-x",` +
		`"max_tokens":900,"games":8}`
	if len(s.asked) == 0 || s.asked[0] != want {
		t.Errorf("asked %q, want %s", s.asked, want)
	}
	if !strings.Contains(got.stderr, name+": every game fails: status 401; give it a key") ||
		got.err == nil || !strings.Contains(got.err.Error(), "is stopped: no key") {
		t.Errorf("%v: %s", got.err, got.stderr)
	}
}
