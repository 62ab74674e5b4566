package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestMistypedKind: a kind that nobody sends is said, and what there is; nothing is refused.
func TestMistypedKind(t *testing.T) {
	t.Parallel()
	answers := map[string]reply{
		"GET /v1/runs/demo/events": {200, `{"events":[],"next":""}`},
		"GET /v1/events":           {200, `{"events":[],"next":""}`},
		"GET /v1/runs":             {200, `{"runs":[]}`},
	}
	for _, args := range []string{"events demo --kind", "events --kind"} {
		got, _ := command(t, answers, "", nil, strings.Fields(args+" rolout_error,group_dropped")...)
		if got.code != ExitOK || !strings.Contains(got.stderr, `knows no events of the kind "rolout_error"; there are `) ||
			!strings.Contains(got.stderr, "rollout_error") || strings.Contains(got.stderr, `"group_dropped"`) {
			t.Errorf("%s: %d, %q", args, got.code, got.stderr)
		}
	}
}

// TestBadNumbersOfEvaluations: they are told before anything is asked of the server.
func TestBadNumbersOfEvaluations(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--version 1 --against random --games 0":         "--games 0: from 1 to 12000",
		"--version 1 --against random --games 12001":     "--games 12001: from 1 to 12000",
		"--version 1 --against random --half-width -0.1": "--half-width -0.1",
		"--version 1 --against random --half-width NaN":  "--half-width NaN",
		"--against random":                               "say which version plays, with --version",
	} {
		got, _ := command(t, nil, "", nil, strings.Fields("eval demo "+args)...)
		if got.code != ExitUsage || got.err == nil || !strings.Contains(got.err.Error(), want) {
			t.Errorf("%s: %d, %v, want %q", args, got.code, got.err, want)
		}
	}
}

// TestWrongScheme: https where http is spoken is said as that.
func TestWrongScheme(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	got, _ := command(t, nil, "", nil, "run", "list", "--server", strings.Replace(server.URL, "http:", "https:", 1))
	if got.code != ExitUnavailable || got.err == nil || !strings.Contains(got.err.Error(), "http:// instead of https://") {
		t.Errorf("%d: %v %q", got.code, got.err, got.stderr)
	}
}
