package cli

import (
	"fmt"
	"strings"
	"testing"
)

func TestRunCurve(t *testing.T) {
	t.Parallel()
	answers := map[string]reply{
		"GET /v1/runs/demo/curve": {200, `{"run":"demo","by":"version","steps":3,"notes":["some are \u001b[2J old"],` +
			`"points":[` +
			`{"first":0,"last":3,"from":"2026-01-02T03:04:05Z","to":"2026-01-02T03:04:05Z","groups":2,"games":8,` +
			`"reward":{"mean":0.25,"half":0.125,"n":2},"agents":{"FRANCE":{"mean":1,"half":-1,"n":1}},"invalid_share":0.5,` +
			`"groups_dropped":{"stale":3},"games_cancelled":2},` +
			`{"first":4,"last":4,"from":"2026-01-02T03:05:05Z","to":"2026-01-02T03:05:05Z","groups":0,"games":0}]}`},
		"GET /v1/runs/new/curve": {200, `{"run":"new","by":"version","steps":0,"notes":[],"points":[]}`},
	}
	for _, tt := range []struct {
		args   []string
		code   int
		stdout []string
		stderr string
	}{
		{[]string{"demo"}, ExitOK, []string{"VERSION", "0-3", "0.25 ± 0.12", "─●─", "50.0",
			"2 games cancelled, 3 groups stale", "FRANCE", "1.000"}, "note: some are"},
		{[]string{"demo", "-o", "csv"}, ExitOK, []string{"first,last,from,to,groups,games,reward.mean,reward.half,agents.FR",
			"\n0,3,2026-01-02T03:04:05Z,", ",3,", "\n4,4,"}, ""},
		{[]string{"demo", "-o", "svg"}, ExitOK, []string{`<svg xmlns="http://www.w3.org/2000/svg"`, "policy version"}, ""},
		{[]string{"demo", "-o", "json"}, ExitOK, []string{`"games_cancelled": 2`}, ""},
		{[]string{"new"}, ExitOK, nil, "no step of run new is completed yet"},
		{[]string{"new", "-o", "svg"}, ExitOK, []string{"</svg></svg>"}, ""},
		{[]string{"demo", "--by", "game"}, ExitUsage, nil, "--by game: use version, step, time"},
		{[]string{"demo", "--points", "1001"}, ExitUsage, nil, "at most 1000"},
		{[]string{"demo", "-o", "ndjson"}, ExitUsage, nil, "use table, json, yaml, csv or svg"},
		{[]string{"gone"}, ExitNotFound, nil, "no such thing"},
	} {
		r, _ := command(t, answers, "", nil, append([]string{"run", "curve"}, tt.args...)...)
		if said := fmt.Sprint(r.stderr, r.err); r.code != tt.code || !strings.Contains(said, tt.stderr) {
			t.Errorf("%v: exit code %d, %s", tt.args, r.code, said)
		}
		for _, want := range tt.stdout {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("%v: no %q in\n%s", tt.args, want, r.stdout)
			}
		}
		harmless(t, r.stdout+r.stderr)
	}
}
