package main

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/observe/axiom/axiomtest"
)

// TestAxiomApply is the command as its user runs it: a look, the change, and nothing left to do.
func TestAxiomApply(t *testing.T) {
	fake := &axiomtest.Server{Token: "xaat-test", Strict: true, Limits: axiomtest.Limits{Monitors: 10}}
	server := httptest.NewServer(fake)
	defer server.Close()
	t.Setenv("AXIOM_URL", server.URL)
	t.Setenv("AXIOM_TOKEN", "xaat-test")
	t.Setenv("AXIOM_DATASET", "")
	for _, tt := range []struct {
		args   string
		code   int
		stdout []string
		stderr string
	}{
		{"apply", 2, nil, "no dataset: add --dataset NAME"},
		{"apply --dataset rl --dry-run", 0,
			[]string{"+ dataset rl", "+ map field metrics", "+ monitor Millrace rl: no step", "without --dry-run"}, ""},
		{"apply --dataset rl --dry-run", 0, []string{"+ dataset rl"}, ""},
		{"apply --dataset rl", 0, []string{"+ dashboard Millrace rl: engines", "0 as wanted"}, "add --notifier"},
		{"apply --dataset rl", 0, []string{"nothing to do: the dataset rl, 4 map fields, 4 dashboards and 5 monitors"}, ""},
		{"apply --dataset rl --notifier x", 1, nil, "make one at Monitors > Notifiers"},
		{"apply --dataset rl", 5, nil, "does not answer"},
	} {
		if err := fake.Switch("503-text", tt.code == 5); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		args := append([]string{"axiom"}, strings.Fields(tt.args)...)
		code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
		if code != tt.code || !strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("%s: exit code %d, want %d; %s", tt.args, code, tt.code, stderr.String())
		}
		for _, want := range tt.stdout {
			if !strings.Contains(stdout.String(), want) {
				t.Errorf("%s: says %s, want %q", tt.args, stdout.String(), want)
			}
		}
	}
	if err := fake.Switch("503-text", false); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AXIOM_TOKEN", "xaat-other")
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"axiom", "apply", "--dataset", "rl"}, strings.NewReader(""), &stdout, &stderr)
	if code != 4 ||
		!strings.Contains(stderr.String(), "the token lacks the permission datasets: read") {
		t.Errorf("exit code %d, %s", code, stderr.String())
	}
}
