package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// service answers as a server does, from a script: by method and path.
type service struct {
	t       *testing.T
	answers map[string]reply
	asked   []string // method, path with query, body
}

type reply struct {
	status int // 0: the caller waits in vain
	body   string
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	s.asked = append(s.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	a, ok := s.answers[r.Method+" "+r.URL.RequestURI()]
	if !ok {
		a, ok = s.answers[r.Method+" "+r.URL.Path]
	}
	if !ok {
		a = reply{404, `{"title":"No such run","status":404,"detail":"there is no such thing"}`}
	}
	if a.status == 0 {
		<-r.Context().Done()
		return
	}
	kind := "application/json"
	if a.status >= 400 {
		kind = "application/problem+json"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body) // a client that is gone fails its own test
}

// result is how a command line ended.
type result struct {
	stdout, stderr string
	err            error
	code           int
}

// command runs a command line against scripted answers. The environment has only what env says.
func command(t *testing.T, answers map[string]reply, stdin string, env map[string]string,
	args ...string) (result, *service) {
	t.Helper()
	s := &service{t: t, answers: answers}
	server := httptest.NewServer(s)
	defer server.Close()
	var stdout, stderr bytes.Buffer
	root := &cobra.Command{Use: "millrace", SilenceErrors: true, SilenceUsage: true}
	deps := Deps{
		Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, HTTP: server.Client(),
		Getenv: func(name string) string {
			if value, ok := env[name]; ok || name != "MILLRACE_SERVER" {
				return value
			}
			return server.URL
		},
		Now: func() time.Time { return noon },
	}
	root.AddCommand(Commands(deps)...)
	Finish(root)
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err := root.ExecuteContext(context.Background())
	return result{stdout.String(), stderr.String(), err, ExitCode(err)}, s
}

const runDocument = `{"spec":{"name":"demo","model":"m","steps":12,"environment":{"kind":"diplomacy"},"group":{"samples":6,"min_samples":6},` +
	`"buffer":{"depth":2,"groups_per_step":8,"max_staleness":4,"on_stale":"drop"}},"state":"running","policy_version":3,"next_step":3,` +
	`"outstanding":16,"started_at":"2026-11-21T11:58:00Z","policies":[{"version":3,"adapter":"demo-v3","path":"/adapters/3","state":"serving",` +
	`"load_seconds":{"a":0.021,"b":0.034}}],"buffer":{"queued":1,"in_flight":7,"ready":8,"claimed":8,"completed":24,"dropped":0,"bytes":40960},` +
	`"ready_depth":1,"fleet":{"engines":2,"slot_share":0.5,"queued_requests":3,"input_tps":1000,"output_tps":50},` +
	`"waits":[{"what":"batch","owner":"trainer, step 3","since":"2026-11-21T11:59:50Z","deadline":"2026-11-21T12:00:20Z","detail":"8 groups"}]}`

// boundDocument is a run that is short of bytes, has nothing to learn from, and loses its long games.
const boundDocument = `{"spec":{"name":"bound","model":"m","steps":12,"environment":{"kind":"diplomacy"},` +
	`"group":{"samples":6,"min_samples":4,"oversample":2,"grace":"30s","zero_variance":"drop"},` +
	`"buffer":{"depth":2,"groups_per_step":8,"max_staleness":4,"on_stale":"wait","order":"finish","max_bytes":2147483648}},"state":"running","policy_version":3,"next_step":3,` +
	`"outstanding":12,"started_at":"2026-11-21T11:58:00Z","failures":{"timeout":2,"environment_hung":1},"throttle":"max_bytes",` +
	`"reward_variance":{"groups":32,"zero_variance":30,"collapsed":true},"buffer":{"in_flight":4,"ready":8,"claimed":8,"completed":120,"dropped":36,"bytes":2000000000},` +
	`"ready_depth":1,"waits":[],"departures":[{"code":"trained","groups":120,"by_length":[0,12,72,36]},` +
	`{"code":"shrunk","groups":6,"by_length":[6]},{"code":"stale","groups":30,"by_length":[0,0,6,24]}]}`

// zeroVarianceStepsDocument has steps with groups that teach nothing, and one of an older version, which did not tell.
const zeroVarianceStepsDocument = `{"steps":[` +
	`{"step":6,"done":true,"trainer":{"wall_seconds":5,"phases":{"train":4}},"service":{"staleness_mean":1.5}},` +
	`{"step":7,"done":true,"trainer":{"wall_seconds":5,"phases":{"train":4}},"service":{"staleness_mean":1.75,"staleness_in_flight_mean":1.25,` +
	`"staleness_in_buffer_mean":0.5,"zero_variance_groups":1,"groups":[{},{}]}},{"step":8,"service":{"staleness_in_flight_mean":1,"zero_variance_groups":2,"groups":[{},{}]}}]}`

const stepsDocument = `{"steps":[` +
	`{"step":0,"done":true,"trainer":{"wall_seconds":6,"phases":{"wait":1,"load":0.5,"train":4,"publish":0.25}},` +
	`"service":{"ready_depth":2,"at_claim":{"queued":0,"in_flight":4},"staleness_max":1,"staleness_in_flight_mean":0.25,"staleness_in_buffer_mean":0.5,"fleet":{"slot_share":0.59,"input_tps":1785,"output_tps":59}}},` +
	`{"step":1,"service":{"ready_depth":1.5,"at_claim":{"queued":2,"in_flight":4},"staleness_max":1}}]}`
