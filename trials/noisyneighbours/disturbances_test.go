package noisyneighbours

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// well is a measurement of a healthy run that feels nothing: ten steps of one second.
func well() measurement {
	peaks := map[string]int64{"server": 60 << 20, "worker-0": 60 << 20, "worker-1": 80 << 20}
	m := measurement{whole: 10, done: 10, newGroup: 2, peaks: peaks}
	for range 10 {
		m.steps = append(m.steps, 1)
	}
	for range 100 {
		m.claims = append(m.claims, 0.01)
	}
	return m
}

func TestEveryBoundIsHeldAgainstARow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(*measurement)
		says  string // empty: nothing is broken
	}{
		{"nothing felt", func(*measurement) {}, ""},
		{"a little slower", func(m *measurement) { m.done = 7 }, ""},
		{"slow steps", func(m *measurement) { m.done = 5 }, "2.0 times as long"},
		{"quick steps, then none", func(m *measurement) { m.done, m.whole = 4, 14 }, "3.5 times as long"},
		{"no step at all", func(m *measurement) { m.steps, m.done = nil, 0 }, "20.0 times as long"},
		{"two slow claims of 100", func(m *measurement) { m.claims[3], m.claims[4] = 1.2, 1.3 }, "claims p99 1.2 s"},
		{"one slow claim of 100", func(m *measurement) { m.claims[3] = 1.2 }, ""},
		{"no claim answered", func(m *measurement) { m.claims = nil }, "claims p99 10.0 s"},
		{"no new group", func(m *measurement) { m.newGroup = -1 }, "no new group"},
		{"late new group", func(m *measurement) { m.newGroup = 11 }, "no new group"},
		{"dropped group", func(m *measurement) { m.dropped = 2 }, "2 groups of the run dropped"},
		{"big server", func(m *measurement) { m.peaks["server"] = 400 << 20 }, "server takes 400 MB"},
		{"one big worker", func(m *measurement) { m.peaks["worker-0"] = 400 << 20 }, "a worker takes 400 MB"},
		{"a process that died", func(m *measurement) { m.ended = []string{"server ended 1 times"} }, "server ended"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := well()
			tt.spoil(&m)
			row := compare(disturbance{name: "x"}, well(), m)
			if tt.says == "" && len(row.Broken) > 0 {
				t.Errorf("broken: %q", row.Broken)
			}
			if !slices.ContainsFunc(append(row.Broken, ""), func(b string) bool { return strings.Contains(b, tt.says) }) {
				t.Errorf("broken: %q, want one that says %q", row.Broken, tt.says)
			}
		})
	}
}

// One step may be held up for as long as is documented, and no longer.
func TestOneHoldUpIsForgiven(t *testing.T) {
	t.Parallel()
	for held, want := range map[float64]float64{0: 1, 20: 1, 40: 3} {
		m := well()
		m.whole += held
		m.steps[4] += held
		m.forgive(loadTimeout, 1)
		if got := compare(disturbance{}, well(), m).Ratio; got != want {
			t.Errorf("held up for %v s: ratio %.2f, want %v", held, got, want)
		}
	}
}

func TestDisturbancesAreChosenByName(t *testing.T) {
	t.Parallel()
	names, _ := Names()
	if all, err := choose(nil); err != nil || len(all) != len(names) {
		t.Errorf("%d of %d are chosen by default: %v", len(all), len(names), err)
	}
	if two, err := choose([]string{"runs", "changes"}); err != nil || len(two) != 2 || two[0].name != "runs" {
		t.Errorf("chose %v, %v", two, err)
	}
	if _, err := choose([]string{"runs", "nonsense"}); err == nil || !strings.Contains(err.Error(), "changes") {
		t.Errorf("%v, want an error that lists the names", err)
	}
	for i, name := range names {
		if slices.Index(names, name) != i {
			t.Errorf("%q is there twice", name)
		}
	}
}

// A hostile engine is a sound one to the service's own checks: only what the trick is about differs.
func TestTricksAreAboutGames(t *testing.T) {
	t.Parallel()
	engine := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"choices":[{"text":"a","token_ids":[1],"logprobs":{"token_logprobs":[-1]}}]}`))
	})
	game := func() *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/v1/completions", nil)
		r.Header.Set("X-Request-Id", "run/0/1/2/X/1")
		return r
	}
	canary := httptest.NewRequest(http.MethodPost, "/v1/completions", nil)
	for name, trick := range map[string]trick{"refuse": refuse, "ramble": ramble} {
		w := httptest.NewRecorder()
		if trick(w, canary, engine) {
			t.Errorf("%s answers a canary", name)
		}
		if !trick(w, game(), engine) {
			t.Errorf("%s leaves a game alone", name)
		}
	}
	w := httptest.NewRecorder()
	ramble(w, game(), engine)
	if text := w.Body.String(); len(text) < 20_000_000 || strings.Count(text, "2147483647") != 5000 {
		t.Errorf("%d bytes", len(text))
	}
}
