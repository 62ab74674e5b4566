package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

var answers = map[string]reply{
	"GET /v1/runs":             {200, `{"runs":[` + runDocument + `]}`},
	"GET /v1/runs/demo":        {200, runDocument},
	"GET /v1/runs/demo/steps":  {200, stepsDocument},
	"GET /v1/runs/bound":       {200, boundDocument},
	"GET /v1/runs/equal/steps": {200, zeroVarianceStepsDocument},
	"PATCH /v1/runs/demo":      {200, runDocument},
	"POST /v1/runs/demo/stop":  {200, runDocument},
	"GET /v1/engines": {200,
		`{"engines":[{"id":"gpu7","url":"http://10.0.0.7:8000","state":"ready","since":"2026-11-21T11:00:00Z","max_in_flight":256}]}`},
	"PUT /v1/engines/gpu7": {200,
		`{"id":"gpu7","url":"http://10.0.0.7:8000","state":"starting","since":"2026-11-21T12:00:00Z","max_in_flight":256}`},
	"DELETE /v1/engines/gpu7": {204, ""},
	"GET /v1/runs/locked":     {401, `{"title":"Unauthorized","status":401,"detail":"no token"}`},
	"GET /v1/runs/down": {503,
		`{"title":"Unavailable","status":503,"detail":"redis does not answer","request_id":"R7"}`},
	"PATCH /v1/runs/completed": {409, `{"title":"Run over","status":409,"detail":"the run is completed"}`},
}

// TestTables pins what a person sees: aligned columns, units in the headings, messages on stderr.
func TestTables(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args           string
		stdout, stderr string
	}{
		{"run list", `
RUN   STATE    STEP  POLICY  DEPTH  GROUPS/STEP  OUTSTANDING    STARTED  REASON
demo  running  3/12      v3      2            8           16  2m00s ago
`, ""},
		{"run steps demo", `
   STEP  WALL s  WAIT  LOAD  REF  TRAIN  PUBL  OTHER  READY  QUEUED  FLYING    STALE  BUSY  FLEET tok/s IN  OUT
prefill     1.0   1.0
      0     5.0   0.0   0.5  0.0    4.0   0.2    0.2    2.0       0       4  0.2+0.5  59 %            1785   59
      1       …                                         1.5       2       4  0.0+0.0
`, ""},
		{"run steps equal", `
STEP  WALL s  WAIT  LOAD  REF  TRAIN  PUBL  OTHER  READY  QUEUED  FLYING    STALE  BUSY  FLEET tok/s IN  OUT  EQUAL
   6     5.0   0.0   0.0  0.0    4.0   0.0    1.0    0.0       0       0      1.5   0 %               0    0    0/0
   7     5.0   0.0   0.0  0.0    4.0   0.0    1.0    0.0       0       0  1.2+0.5   0 %               0    0    1/2
   8       …                                         0.0       0       0  1.0+0.0                               2/2
`, ""},
		{"run show bound", `
run          bound
state        running
started      2026-11-21T11:58:00Z, 2m00s ago
model        m
environment  diplomacy
step         3 of 12
policy       v3
buffer       depth 2 x 8 groups of 6 games, max staleness 4 (wait), first finished first
group        6 games, 2 more started, 4 suffice after 30s of grace, dropped when rewards are equal
groups       0 queued, 4 in flight, 8 ready (1.0 batches), 8 claimed, 120 trained on, 36 dropped
stored       1.9 GiB of 2 GiB
throttle     launches no more: buffer.max_bytes reached, 1.9 GiB of 2 GiB stored, 12 of 16 groups outstanding
variance     30 of the last 32 groups had equal rewards: nothing to learn; check rewards, temperature, opponents
given up     1 groups: environment_hung
given up     2 groups: timeout

LEFT AS  GROUPS  SHARE   0 PHASES          1        2-3        4-7
trained     120   77 %             12 (10 %)  72 (60 %)  36 (30 %)
shrunk        6    4 %  6 (100 %)
stale        30   19 %                         6 (20 %)  24 (80 %)
Length bias: groups dropped as stale have longer games than those trained on, about 4.9 phases against 3.2: what is learnt from leans towards short games.
`, ""},
		{"engine list", `
ENGINE  STATE      SINCE  URL                   LIMIT  SLOTS  RUNNING  WAITING  QUEUE s  IN tok/s  OUT tok/s  CACHED   KV  ADAPTERS  PROVEN  USAGE ERR  REASON
gpu7    ready  1h00m ago  http://10.0.0.7:8000    256    0 %        0        0      0.0         0          0     0 %  0 %         0       -          -
`, ""},
		{"run show demo", `
run          demo
state        running
started      2026-11-21T11:58:00Z, 2m00s ago
model        m
environment  diplomacy
step         3 of 12
policy       v3
buffer       depth 2 x 8 groups of 6 games, max staleness 4 (drop)
groups       1 queued, 7 in flight, 8 ready (1.0 batches), 8 claimed, 24 trained on, 0 dropped
stored       40 KiB
fleet        2 ready, 50 % of their slots in use, 3 requests queued, input 1000 tok/s, output 50 tok/s

POLICY  STATE    ADAPTER  LOAD s  PROVEN  PATH         REASON
v3      serving  demo-v3    0.03  -       /adapters/3

WAITS FOR  OWNER              SINCE  ENDS IN  UNTIL
batch      trainer, step 3  10s ago      20s  8 groups
`, ""},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			got, _ := command(t, answers, "", nil, strings.Fields(tt.args)...)
			if got.err != nil || got.stdout != tt.stdout[1:] || got.stderr != tt.stderr {
				t.Errorf("%v\nstdout:\n%swant:\n%sstderr %q, want %q", got.err, got.stdout, tt.stdout[1:], got.stderr, tt.stderr)
			}
		})
	}
}

// TestDocuments holds -o json and yaml to the server's own document, whole.
func TestDocuments(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"run list", "run show demo", "run show bound", "run steps demo", "engine list",
		"engine add http://10.0.0.7:8000 --id gpu7", "run pause demo"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			asJSON, _ := command(t, answers, "", nil, append(strings.Fields(args), "-o", "json")...)
			asYAML, _ := command(t, answers, "", nil, append(strings.Fields(args), "-o", "yaml")...)
			var fromJSON, fromYAML map[string]any
			if err := json.Unmarshal([]byte(asJSON.stdout), &fromJSON); err != nil || len(fromJSON) == 0 {
				t.Errorf("%v in %q", err, asJSON.stdout)
			}
			if err := yaml.Unmarshal([]byte(asYAML.stdout), &fromYAML); err != nil || len(fromYAML) != len(fromJSON) {
				t.Errorf("%v in %q", err, asYAML.stdout)
			}
		})
	}
}

// TestExitCodes holds every kind of end to its documented code and to a text that says what to do.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"run list", ExitOK, ""},
		{"run show demo", ExitOK, ""},
		{"run show nobody", ExitNotFound, "there is no such thing"},
		{"run show locked", ExitAuth, "set MILLRACE_TOKEN"},
		{"run show down", ExitUnavailable, "redis does not answer (request_id R7)"},
		{"run pause completed", ExitError, "the run is completed"},
		{"run list --server http://127.0.0.1:1", ExitUnavailable, "start one with: millrace dev"},
		{"run list --server nonsense", ExitUsage, "want a URL such as"},
		{"run list -o xml", ExitUsage, "use table, json or yaml"},
		{"run list --bogus", ExitUsage, "see --help"},
		{"run lst", ExitUsage, "did you mean list?"},
		{"run sho", ExitUsage, "did you mean show?"},
		{"run qwertz", ExitUsage, "see millrace run --help"},
		{"run show", ExitUsage, "accepts 1 arg(s), received 0: millrace run show RUN"},
		{"run list all", ExitUsage, `unknown command "all" for "millrace run list"`},
		{"run show A/B", ExitUsage, "use 1 to 63 of a-z"},
		{"run set demo depth", ExitUsage, "want KEY=VALUE"},
		{"run set demo =4", ExitUsage, `"=4": want KEY=VALUE`},
		{"run set demo buffer.dept=4", ExitUsage, "buffer.dept: unknown key; did you mean buffer.depth?"},
		{"run set demo buffer.depth=four", ExitUsage, `buffer.depth: want a whole number, not the text "four"`},
		{"run set demo buffer.depth=4 buffer.depth=5", ExitUsage, "given twice"},
		{"run set demo paused=true", ExitUsage, "millrace run pause"},
		{"run set demo buffer.on_stale=maybe", ExitUsage, "maybe is not one of drop, keep, wait"},
		{"run set demo group.zero_variance=wait", ExitUsage, "wait is not one of keep, drop"},
		{"run set demo group.grace=30", ExitUsage, "want a duration such as 90s"},
		{"run set demo group.grace=-30s", ExitUsage, "group.grace: -30s is less than 0s"},
		{"run set demo buffer.max_bytes=2GB", ExitUsage, "such as 2GiB"},
		{"run set demo buffer.max_bytes=-1GiB", ExitUsage, "such as 2GiB"},
		{"run set demo buffer.max_bytes=1.5", ExitUsage, "such as 2GiB"},
		{"run set demo buffer.max_bytes=NaN", ExitUsage, "such as 2GiB"},
		{"run set demo buffer.depth=4", ExitOK, ""},
		{"run steps demo --from -1", ExitUsage, "numbered from 0"},
		{"run start", ExitUsage, "name a file with -f"},
		{"run start -f /nowhere.yaml", ExitError, "no such file"},
		{"engine add gpu7:8000", ExitUsage, "want the engine's URL"},
		{"engine add ftp://gpu7", ExitUsage, "want the engine's URL"},
		{"engine drain nobody", ExitNotFound, "no such thing"},
		{"engine remove gpu7", ExitOK, ""},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			got, _ := command(t, answers, "", nil, strings.Fields(tt.args)...)
			if got.code != tt.code {
				t.Errorf("exit code %d, want %d (%v)", got.code, tt.code, got.err)
			}
			if got.err != nil && !strings.Contains(got.err.Error(), tt.says) {
				t.Errorf("%q does not say %q", got.err, tt.says)
			}
			if got.err != nil && got.stdout != "" {
				t.Errorf("data beside an error: %q", got.stdout)
			}
		})
	}
}

// TestChanges holds the requests to what the command line says.
func TestChanges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, asks string }{
		{"run set demo buffer.depth=4 steps=20", `PATCH /v1/runs/demo {"buffer":{"depth":4},"steps":20}`},
		{"run set demo buffer.on_stale=keep", `PATCH /v1/runs/demo {"buffer":{"on_stale":"keep"}}`},
		{"run set demo buffer.on_stale=wait group.zero_variance=drop",
			`PATCH /v1/runs/demo {"buffer":{"on_stale":"wait"},"group":{"zero_variance":"drop"}}`},
		{"run set demo group.oversample=2 group.grace=1m30s", `PATCH /v1/runs/demo {"group":{"grace":"1m30s","oversample":2}}`},
		{"run set demo buffer.max_bytes=1.5GiB", `PATCH /v1/runs/demo {"buffer":{"max_bytes":1610612736}}`},
		{"run set demo buffer.max_bytes=0", `PATCH /v1/runs/demo {"buffer":{"max_bytes":0}}`},
		{"run pause demo", `PATCH /v1/runs/demo {"paused":true}`},
		{"run resume demo", `PATCH /v1/runs/demo {"paused":false}`},
		{"run stop demo --reason enough", `POST /v1/runs/demo/stop {"reason":"enough"}`},
		{"engine add http://10.0.0.7:8000 --id gpu7 --max-in-flight 64",
			`PUT /v1/engines/gpu7 {"url":"http://10.0.0.7:8000","max_in_flight":64}`},
		{"engine add http://10.0.0.7:8000", `PUT /v1/engines/10.0.0.7-8000 {"url":"http://10.0.0.7:8000"}`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			_, s := command(t, answers, "", nil, strings.Fields(tt.args)...)
			if len(s.asked) != 1 || s.asked[0] != tt.asks {
				t.Errorf("asked %q, want %q", s.asked, tt.asks)
			}
		})
	}
}

// TestStartNamesTheFile gives the server's faults the name of the file that a person can open.
func TestStartNamesTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "run.yaml")
	if err := os.WriteFile(file, []byte("name: demo\nsteps: -3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refusal := map[string]reply{"POST " +
		"/v1/runs": {422, `{"title":"Invalid request","status":422,"detail":"run spec: 2 faults",` +
		`"errors":[{"message":"request:2:1: steps: -3 is less than 1"},{"message":"request: model: is missing"}]}`}}
	want := "run spec: 2 faults\n  " + file + ":2:1: steps: -3 is less than 1\n  " + file + ": model: is missing"
	if got, _ := command(t, refusal, "", nil, "run", "start", "-f", file); got.code != ExitError ||
		got.err.Error() != want {
		t.Errorf("exit code %d, %q, want %q", got.code, got.err, want)
	}
	if got, _ := command(t, refusal, "name: demo", nil, "run", "start", "-f",
		"-"); !strings.Contains(got.err.Error(), "request:2:1") {
		t.Errorf("standard input has no name, but: %q", got.err)
	}
	if got, s := command(t, refusal, " \n", nil, "run", "start", "-f", "-"); got.err == nil || len(s.asked) > 0 {
		t.Errorf("an empty spec is sent: %q", got.err)
	}
}

// The spec of a clone is no file of anybody's.
func TestCloneNamesNoPlaces(t *testing.T) {
	t.Parallel()
	answers := map[string]reply{
		"GET /v1/runs/demo": {200, `{"spec":{}}`},
		"POST /v1/runs": {422, `{"title":"Invalid request","status":422,"detail":"run spec: 2 faults",` +
			`"errors":[{"message":"request:1:61: steps: 0 is less than 1"},{"message":"request:1:70: foo: unknown key"}]}`},
	}
	want := "run spec: 2 faults\n  steps: 0 is less than 1\n  foo: unknown key"
	if got, _ := command(t, answers, "", nil, "run", "clone", "demo", "new"); got.err == nil || got.err.Error() != want {
		t.Errorf("%v, want %q", got.err, want)
	}
}

// A group of one game has nothing to compare it with: that is allowed, and said.
func TestStartNotesGroupsOfOne(t *testing.T) {
	t.Parallel()
	for samples, noted := range map[string]bool{"1": true, "2": false} {
		status := `{"state":"running","spec":{"name":"demo","group":{"samples":` + samples + `}}}`
		got, _ := command(t, map[string]reply{"POST /v1/runs": {201, status}}, "name: demo", nil, "run", "start", "-f", "-")
		if got.err != nil || strings.Contains(got.stderr, "every advantage is 0") != noted {
			t.Errorf("%s samples: %v %q", samples, got.err, got.stderr)
		}
	}
}

// A model that no engine serves is allowed, since one may be added, and said; before any engine it is not known.
func TestStartNotesAModelThatNobodyServes(t *testing.T) {
	t.Parallel()
	for engines, noted := range map[string]bool{`[{"id":"a","models":["other"]}]`: true, `[{"id":"a","models":["m"]}]`: false,
		`[{"id":"a"}]`: false, `[]`: false} {
		answers := map[string]reply{"POST /v1/runs": {201, `{"state":"running","spec":{"name":"demo","model":"m"}}`},
			"GET /v1/engines": {200, `{"engines":` + engines + `}`}}
		got, _ := command(t, answers, "name: demo", nil, "run", "start", "-f", "-")
		if got.err != nil || strings.Contains(got.stderr, "note: no engine serves m") != noted {
			t.Errorf("%s: %v %q", engines, got.err, got.stderr)
		}
	}
}

// What an alarm says stands once, with what to do, and not again among what the run waits for.
func TestRunShowTellsAnAlarmOnce(t *testing.T) {
	t.Parallel()
	got, _ := command(t, map[string]reply{"GET /v1/runs/demo": {200, `{"spec":{"name":"demo"},"state":"running",` +
		`"alarms":[{"code":"no_worker","text":"no worker is alive","advice":"start one"}],"waits":[{"what":"worker",` +
		`"owner":"run","detail":"no worker is alive; start one"},{"what":"games","owner":"2 groups",` +
		`"detail":"their end"}]}`}}, "", nil, "run", "show", "demo")
	if got.err != nil || strings.Count(got.stdout, "no worker is alive") != 1 ||
		!strings.Contains(got.stdout, "their end") {
		t.Errorf("%v:\n%s", got.err, got.stdout)
	}
}
