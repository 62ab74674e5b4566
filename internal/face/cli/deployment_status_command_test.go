package cli

import (
	"strings"
	"testing"
)

// TestStatus: what is wrong comes first, then every part. A server that was built without a version is a server that
// answers all the same.
func TestStatus(t *testing.T) {
	t.Parallel()
	const rest = `"redis":{"answers":true},"temporal":{"answers":false,"error":"connection refused"},` +
		`"workers":{"alive":2,"absent":1,"slots":64,"games":12},"runs":[{"run":"demo","state":"running","next_step":3,` +
		`"steps":8,"policy_version":2,"ready_groups":1,"in_flight_groups":4,"queued_groups":0}]`
	for _, tt := range []struct {
		name, body string
		args       []string
		code       int
		says       []string
	}{
		{"of a release", `{"version":"v1.2.3","problems":[],` + rest + `}`, nil, ExitOK,
			[]string{"server    v1.2.3", "redis     answers", "workers   2 alive, 12 of 64 games; 1 not heard of any more",
				"demo"}},
		{"of a deployment with a name", `{"name":"rl-production","version":"v1","problems":[],` + rest + `}`, nil, ExitOK,
			[]string{"name      rl-production\nserver    v1\n"}},
		{"of a build without a version", `{"version":"unknown","problems":[],` + rest + `}`, nil, ExitOK,
			[]string{"server    answers; its build has no version\n"}},
		{"a problem", `{"version":"v1.2.3","problems":[{"level":"stuck","what":"no worker is alive","advice":"start one","run":"demo"}],` +
			rest + `}`, []string{"--exit-code"}, ExitProblem,
			[]string{"STUCK  run demo: no worker is alive\n", "to do  start one\n"}},
		{"what is only to know", `{"version":"v1.2.3","problems":[{"level":"note","what":"facts were lost"}],` + rest + `}`,
			[]string{"--exit-code"}, ExitOK, []string{"NOTE   facts were lost\n"}},
		{"a slow run", `{"version":"v1.2.3","problems":[],` + strings.Replace(rest, `"queued_groups":0`,
			`"queued_groups":0,"level":"slow","brief":"publish 12 %, $0.8/h"`, 1) + `}`, nil, ExitOK,
			[]string{"slow: publish 12 %, $0.8/h\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, _ := command(t, map[string]reply{"GET /v1/status": {200, tt.body}}, "", nil,
				append([]string{"status"}, tt.args...)...)
			if got.code != tt.code {
				t.Errorf("exit code %d, want %d: %v", got.code, tt.code, got.err)
			}
			for _, want := range tt.says {
				if !strings.Contains(got.stdout, want) {
					t.Errorf("%q is not in:\n%s", want, got.stdout)
				}
			}
		})
	}
}

// While Redis does not answer, top says so, and not that there is no run.
func TestTopWhileRedisDoesNotAnswer(t *testing.T) {
	t.Parallel()
	got, _ := command(t, map[string]reply{"GET /v1/status": {200, `{"redis":{"answers":false},"runs":[],` +
		`"problems":[{"level":"stuck","what":"Redis does not answer","advice":"start it"}]}`}}, "", nil, "top", "--once")
	if got.err != nil || !strings.Contains(got.stdout, "STUCK  Redis does not answer; to do: start it") ||
		strings.Count(got.stdout, "not known") != 2 || strings.Contains(got.stdout, "0/0") {
		t.Errorf("%v:\n%s", got.err, got.stdout)
	}
}
