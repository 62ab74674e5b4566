package top

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/supply"
)

var update = flag.Bool("update", false, "rewrite the screens in testdata")

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func step(n int, wait, train float64) steprecord.StepRecord {
	return steprecord.StepRecord{Step: rollout.Step(n), Done: true,
		Trainer: steprecord.StepReport{WallSec: wait + train + 2, Phases: map[steprecord.Phase]float64{"wait": wait,
			"train": train,
			"load":  1, "publish": 1}},
		Service: steprecord.ServiceView{StalenessMax: 2, StalenessMean: 1.5, Trajectories: 42, Version: 3,
			StarvedBy: map[steprecord.StarvationCause]float64{"inference": wait},
			Groups: []steprecord.GroupView{{Seq: 7, MinVersion: 2, EpisodeSec: []float64{3, 9}, Times: rollout.GroupTimes{
				LaunchedAt: noon, ReadyAt: noon.Add(10 * time.Second)}}}}}
}

func runOf(name string, state runstatus.RunState) tablerow.Run {
	r := tablerow.Run{RunView: api.RunView{RunStatus: runstatus.RunStatus{Spec: runspec.Spec{Name: rollout.RunName(name),
		Steps: 12, Model: "m",
		Buffer: runspec.BufferSpec{Depth: 2, GroupsPerStep: 4}}, State: state, StartedAt: noon, NextStep: 3,
		PolicyVersion: 3},
		Buffer:     steprecord.BufferCounts{Queued: 1, InFlight: 2, Ready: 4, Claimed: 4},
		ReadyDepth: 1, Fleet: &steprecord.FleetView{Engines: 2, SlotShare: 0.5, QueuedRequests: 3, InputTPS: 1000,
			OutputTPS: 50}}}
	last := step(2, 4, 5)
	r.Last = &last
	return r
}

func failing() tablerow.Run {
	r := runOf("failing-run-with-a-name-of-sixty-three-characters-which-is-all.x", runstatus.RunRunning)
	r.Last, r.Fleet = nil, nil
	r.Attempts = runstatus.AttemptCounts{Finished: 2, Failed: 97, ByCode: []runstatus.FailedAttempts{{Code: "timeout",
		InRow: 97}}}
	r.Alarms = []runstatus.Alarm{{Text: "every game fails: timeout 97 times in 2 min, last: engine a\x1b[2J: no answer",
		Advice: "raise timeouts.completion (20ms)"}}
	return r
}

func fleet() []enginestate.Engine {
	engines := []enginestate.Engine{
		{ID: "engine-0", State: enginestate.EngineReady, Load: enginestate.EngineLoad{Running: 12, Waiting: 3, InputTPS: 900,
			OutputTPS: 40,
			KVUsage:   0.4, PrefixHitShare: 0.82}},
		{ID: "engine-1", State: enginestate.EngineLost, Reason: "no answer since\r12:00"},
		{ID: "eng\u202eine-2", State: enginestate.EngineReady, Load: enginestate.EngineLoad{Running: 1, OutputTPS: 77}},
	}
	return engines
}

func overviewOf(runs ...tablerow.Run) Overview {
	return Overview{At: after(5), Runs: runs, Engines: fleet()}
}

func theRun() RunRead {
	under := step(3, 0, 0)
	under.Done = false
	return RunRead{At: after(6), Of: "alpha", Run: runOf("alpha", runstatus.RunRunning),
		Steps: []steprecord.StepRecord{step(0, 0, 5), step(1, 0.2, 5), step(2, 4, 5), under}}
}

func theGames() GamesRead {
	good, bad, v := 0.75, 0.1, rollout.PolicyVersion(3)
	return GamesRead{Of: "alpha", Page: gamelist.Page{Total: 3, Games: []gamelist.Game{
		{Name: "alpha/9/0", Group: 9, State: gamelist.Playing, GroupState: "in_flight", Kept: true, Phases: 2, Attempts: 1},
		{Name: "alpha/8/1", Group: 8, Sample: 1, State: gamelist.Finished, GroupState: "ready", Kept: true, Reward: &good,
			MinVersion: &v, MaxVersion: &v,
			Phases:  9,
			Seconds: 31.4, Attempts: 2, Code: "timeout", Failure: "timeout: engine a: no\x1b]52;c;x\a answer"},
		{Name: "alpha/1/0", Group: 1, State: gamelist.Finished, GroupState: "trained", Reward: &bad, MinVersion: &v,
			MaxVersion: &v, Phases: 4,
			Seconds: 8},
	}}}
}

// silent is how the reader says that the server does not answer.
type silent struct{}

func (silent) Error() string     { return "no millrace server answers\n  start one" }
func (silent) Unreachable() bool { return true }

func keys(text string) (events []Event) {
	for k := range strings.FieldsSeq(text) {
		events = append(events, Key(k))
	}
	return events
}

func after1(events ...any) (all []Event) {
	for _, e := range events {
		switch e := e.(type) {
		case []Event:
			all = append(all, e...)
		case Event:
			all = append(all, e)
		}
	}
	return all
}

// scaledOverview is an overview of a fleet that is scaled.
func scaledOverview() Overview {
	o := overviewOf(runOf("alpha", "running"))
	o.Name = "rl-production"
	o.Fleet = &supply.View{Wanted: 5, Actual: scaling.Engines{Ready: 2, Starting: 3},
		Why: "alpha waits 4 s of a step\x1b[2J: 5 engines make it 6 s"}
	o.Wrong = []api.Trouble{{Level: diagnosis.SeverityStuck, What: "no worker is alive since 3 min",
		Advice: "start one: millrace worker"}, {Level: diagnosis.SeveritySlow, What: "appendonly is no"}}
	return o
}

// longest is a name that a run may just have, with every kind of character that it may have.
var longest = rollout.RunName("a" + strings.Repeat("-_.w", 15) + "9z")

func TestLongestIsAName(t *testing.T) {
	t.Parallel()
	if longest.Validate() != nil || (longest+"z").Validate() == nil {
		t.Errorf("%q is not as long as a name may be", longest)
	}
}

// screens is what is on the screen after events, in testdata/NAME-80x24.txt and NAME-120x40.txt.
var screens = []struct {
	name   string
	events []Event
}{
	{"nothing-read", nil},
	{"overview", after1(overviewOf(runOf("alpha", "running"), failing(), runOf("done", "completed")))},
	{"longest-name", after1(overviewOf(runOf(string(longest), "running"), runOf("done", "completed")))},
	{"longest-name-opened", after1(overviewOf(runOf(string(longest), "running")), keys("enter"),
		RunRead{At: after(5), Of: longest, Run: runOf(string(longest), "running")})},
	{"scaled", after1(scaledOverview())},
	{"not-known", after1(Overview{At: after(5), Unknown: true, Wrong: []api.Trouble{{Level: diagnosis.SeverityStuck,
		What: "Redis does not answer (for 5 s)", Advice: "start it"}}})},
	{"engines-filtered", after1(overviewOf(runOf("alpha", "running")), keys("tab / 1 enter"))},
	{"pause-asked", after1(overviewOf(runOf("alpha", "running")), keys("p"))},
	{"server-away", after1(overviewOf(runOf("alpha", "running")), Ticked{after(10)}, Overview{Err: silent{}},
		Ticked{after(95)},
		Overview{Err: silent{}})},
	{"run", after1(overviewOf(runOf("alpha", "running")), keys("enter"), theRun())},
	{"run-failing", after1(overviewOf(failing()), keys("enter"))},
	{"games", after1(overviewOf(runOf("alpha", "running")), keys("enter tab"), theRun(), theGames(), keys("down"))},
	{"game-opened", after1(overviewOf(runOf("alpha", "running")), keys("enter tab"), theRun(), theGames(),
		keys("down enter"))},
	{"step", after1(overviewOf(runOf("alpha", "running")), keys("enter"), theRun(), keys("down enter"))},
	{"help", keys("?")},
}

func played(events []Event, width, height int) *Model {
	m := New("http://127.0.0.1:8700", "", width, height, noon)
	m.Start()
	m.Update(Ticked{after(7)})
	for _, e := range events {
		m.Update(e)
	}
	return m
}

func TestScreens(t *testing.T) {
	t.Parallel()
	for _, s := range screens {
		for _, size := range [][2]int{{80, 24}, {120, 40}} {
			var text strings.Builder
			for _, line := range played(s.events, size[0], size[1]).View() {
				text.WriteString(line.Text + "\n")
			}
			path := filepath.Join("testdata", fmt.Sprintf("%s-%dx%d.txt", s.name, size[0], size[1]))
			if *update {
				if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil || string(want) != text.String() {
				t.Errorf("%s (%v; -update rewrites it):\n%s", path, err, text.String())
			}
		}
	}
}

// TestEveryScreenFits: at any size, after any of the events, a screen has as many lines as it is high, none wider than
// it is, and nothing in it that a terminal obeys.
func TestEveryScreenFits(t *testing.T) {
	t.Parallel()
	for _, s := range screens {
		for _, size := range [][2]int{{80, 24}, {40, 10}, {41, 11}, {200, 60}, {120, 12}, {10, 3}, {0, 0}} {
			m := played(s.events, 80, 24)
			m.Update(Resized{size[0], size[1]})
			lines := m.View()
			if size[1] >= smallestHeight && size[0] >= smallestWidth && len(lines) != size[1] {
				t.Errorf("%s at %v: %d lines", s.name, size, len(lines))
			}
			for _, line := range lines {
				if w := ansi.StringWidth(line.Text); w > size[0] {
					t.Errorf("%s at %v: %d wide: %s", s.name, size, w, line.Text)
				}
				for _, r := range line.Text {
					if termtext.Obeyed(r) {
						t.Errorf("%s at %v: a terminal obeys %U in %q", s.name, size, r, line.Text)
					}
				}
			}
		}
	}
}

// TestWhatIsAsked is the commands that events bring.
func TestWhatIsAsked(t *testing.T) {
	t.Parallel()
	begun := after1(overviewOf(runOf("alpha", "running")))
	for _, tt := range []struct {
		name   string
		before []Event
		event  Event
		want   string
	}{
		{"the time", begun, Ticked{after(8)}, "ReadOverview"},
		{"the time, with an answer under way", after1(begun, Ticked{after(8)}), Ticked{after(9)}, ""},
		{"the time, with no answer before", nil, Ticked{after(8)}, ""},
		{"a run is opened", begun, Key("enter"), "ReadRun alpha"},
		{"its games", after1(begun, keys("enter"), theRun()), Key("tab"), "ReadRun alpha, ReadGames alpha group"},
		{"in another order", after1(begun, keys("enter tab"), theRun(), theGames()), Key("s"),
			"ReadRun alpha, ReadGames alpha reward"},
		{"a game", after1(begun, keys("enter tab"), theRun(), theGames(), keys("down")), Key("enter"), ""},
		{"pause is asked first", begun, Key("p"), ""},
		{"and done when confirmed", after1(begun, keys("p")), Key("y"), "Pause alpha true"},
		{"and not otherwise", after1(begun, keys("p")), Key("enter"), ""},
		{"resume", after1(overviewOf(runOf("alpha", "paused")), keys("p")), Key("y"), "Pause alpha false"},
		{"a run that is over", after1(overviewOf(runOf("alpha", "completed")), keys("p")), Key("y"), ""},
		{"with engines in focus no run is paused", after1(begun, keys("tab p")), Key("y"), ""},
		{"what was done is looked at", after1(begun), Acted{What: "run alpha is paused"}, "ReadOverview"},
		{"q ends it", begun, Key("q"), "Quit"},
		{"q in a filter is a letter", after1(begun, keys("/")), Key("q"), ""},
		{"ctrl+c ends it in a filter, too", after1(begun, keys("/")), Key("ctrl+c"), "Quit"},
		{"and in a question", after1(begun, keys("p")), Key("ctrl+c"), "Quit"},
		{"an empty list opens nothing", nil, Key("enter"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := New("http://x", "", 80, 24, noon)
			m.Start()
			for _, e := range tt.before {
				m.Update(e)
			}
			var got []string
			for _, c := range m.Update(tt.event) {
				name := strings.TrimPrefix(fmt.Sprintf("%T", c), "top.")
				got = append(got, strings.TrimSuffix(name+" "+strings.Trim(fmt.Sprint(c), "{}"), " "))
			}
			if text := strings.Join(got, ", "); text != tt.want {
				t.Errorf("%q, want %q", text, tt.want)
			}
		})
	}
}

// TestServerComesBack: what was read stays while no answer comes, since when is told, and one answer ends it.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	m := played(after1(overviewOf(runOf("alpha", "running")), Ticked{after(10)},
		Overview{Err: silent{}},
		Ticked{after(40)},
		Overview{Err: silent{}}), 80, 24)
	if text := m.View()[1].Text; !strings.Contains(text, "since 12:00:10 (30s)") {
		t.Error(text)
	}
	if len(m.rows(runsPane)) != 1 {
		t.Error("the runs are gone")
	}
	m.Update(overviewOf(runOf("alpha", "running"), runOf("beta", "running")))
	if text := m.View()[1].Text; strings.Contains(text, "NOT ANSWER") || len(m.rows(runsPane)) != 2 {
		t.Error(text)
	}
	m.Update(Overview{Err: errors.New("no token")})
	if text := m.View()[22].Text; text != "no token" {
		t.Errorf("a refusal is told as %q", text)
	}
}

// TestCursorStaysWithItsRow when others come before it, and at the top when it is there.
func TestCursorStaysWithItsRow(t *testing.T) {
	t.Parallel()
	m := played(after1(overviewOf(runOf("b", "running"), runOf("c", "running")), keys("s down")), 80, 24) // by name
	m.Update(overviewOf(runOf("a", "running"), runOf("b", "running"), runOf("c", "running")))
	if r := m.chosen(); r.Name() != "c" {
		t.Errorf("the cursor went to %s", r.Name())
	}
	m.Update(Key("home"))
	m.Update(overviewOf(runOf("0", "running"), runOf("a", "running")))
	if r := m.chosen(); r.Name() != "0" {
		t.Errorf("the cursor went to %s", r.Name())
	}
	m.Update(overviewOf())
	if m.chosen() != nil {
		t.Error("a run is chosen, and there is none")
	}
}

// FuzzKeys: no keys, in any order, with any answers between them, break the screen.
func FuzzKeys(f *testing.F) {
	f.Add("\x00\x01\x02/q\x03")
	f.Add("enter tab s r down")
	names := []string{"up", "down", "enter", "esc", "tab", "/", "s", "r", "p", "y", "n", "?", "g", "end", "pgdown",
		"backspace", "x"}
	answers := []Event{overviewOf(runOf("alpha", "running"), failing()), theRun(), theGames(), Overview{},
		Overview{Err: silent{}}, Resized{40, 10}, Resized{120, 40}, Resized{3, 3}, Acted{What: "x", Err: silent{}},
		GamesRead{Of: "alpha"}}
	f.Fuzz(func(t *testing.T, script string) {
		m := New("http://x", "", 80, 24, noon)
		m.Start()
		for i := range len(script) {
			if b := int(script[i]); b%3 == 0 {
				m.Update(answers[b/3%len(answers)])
			} else {
				m.Update(Key(names[b%len(names)]))
			}
			if m.height >= smallestHeight && m.width >= smallestWidth && len(m.View()) != m.height {
				t.Fatalf("%d lines of %d", len(m.View()), m.height)
			}
			m.Snapshot()
		}
	})
}
