package pageview

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

var start = time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)

// steps are so many, of 10 s each, one after another; every tenth takes twice as long, for it waits.
func steps(n int) []runhistory.Step {
	var all []runhistory.Step
	now := start
	for i := range n {
		s := runhistory.Step{No: rollout.Step(i), Version: rollout.PolicyVersion(i), Sec: 10, Groups: 8, Depth: 2,
			GroupsPerStep: 8, Engines: 2, LengthMean: 6, LengthMax: 9, ZeroVariance: 2,
			Reward: stat.OneGroup([]float64{0.4, 0.6})}
		s.Curve.Results = []steprecord.VersionResults{{Version: s.Version, Results: steprecord.Results{Reward: s.Reward}}}
		s.Phases[3] = 10
		if i%10 == 9 {
			s.Sec, s.Phases[0], s.StarvedSec = 20, 10, 10
		}
		now = now.Add(time.Duration(s.Sec) * time.Second)
		s.At, s.Curve.At = now, now
		all = append(all, s)
	}
	return all
}

func input(n int) RunInput {
	all := steps(n)
	in := RunInput{History: runhistory.View{Steps: all}}
	in.View.RunStatus = runstatus.RunStatus{State: runstatus.RunCompleted, StartedAt: start, NextStep: rollout.Step(n),
		Spec: runspec.Spec{Name: "demo", Steps: n, Buffer: runspec.BufferSpec{MaxStaleness: 4}}}
	in.Window = WholeOf(in.View.RunStatus, in.History, start.Add(24*time.Hour))
	return in
}

// However many steps there are, no column loses any: what a chart's columns stand for is all time and all steps.
func TestBucketsHoldEveryStep(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 7, mostBuckets, mostBuckets + 1, 1000, 10_000} {
		in := input(max(n, 1))
		if n == 0 {
			in.History.Steps = nil
		}
		buckets := bucketsOf(in.History.Steps, in.Window)
		count, seconds := 0, 0.0
		for _, b := range buckets {
			count += len(b.steps)
			for _, s := range b.steps {
				seconds += s.Sec
			}
		}
		if count != n || len(buckets) > mostBuckets+1 {
			t.Errorf("%d steps: %d of them in %d columns", n, count, len(buckets))
		}
		if want := 11 * float64(n); n > 0 && n%10 == 0 && math.Abs(seconds-want) > 1 {
			t.Errorf("%d steps: %v s, want %v", n, seconds, want)
		}
	}
}

// Amounts that are spread over a window add up to what was added inside of it.
func TestTallyAddsUp(t *testing.T) {
	t.Parallel()
	w := Window{start, start.Add(100 * time.Second)}
	from := sec(start)
	for _, tt := range []struct {
		name           string
		from, to, want float64
	}{
		{"inside", 10, 30, 40}, {"a moment", 10, 10, 40}, {"the last moment", 100, 100, 0}, {"half before", -20, 20, 20},
		{"half after", 90, 110, 20}, {"before", -20, -10, 0}, {"after", 101, 120, 0}, {"all around", -50, 150, 20},
	} {
		tally := newTally(w, 50)
		tally.add("x", from+tt.from, from+tt.to, 40)
		sum := 0.0
		for _, v := range tally.by["x"] {
			sum += v
		}
		if math.Abs(sum-tt.want) > 1e-6 {
			t.Errorf("%s: %v, want %v", tt.name, sum, tt.want)
		}
	}
}

func TestManyNamesBecomeOthers(t *testing.T) {
	t.Parallel()
	tally := newTally(Window{start, start.Add(time.Minute)}, 10)
	for i := range 20 {
		tally.add(strings.Repeat("e", i+1), sec(start), sec(start)+60, float64(i+1))
	}
	names, sum := tally.names(strings.Compare), 0.0
	for _, name := range names {
		for _, v := range tally.by[name] {
			sum += v
		}
	}
	if len(names) != len(classes) || names[len(names)-1] != others || math.Abs(sum-210) > 1e-6 {
		t.Errorf("%v with %v", names, sum)
	}
}

func TestParseWindow(t *testing.T) {
	t.Parallel()
	whole := Window{start, start.Add(time.Hour)}
	for _, tt := range []struct {
		from, to string
		zoomed   bool
		fault    string
	}{
		{"", "", false, ""}, {"2026-01-02T03:10:00Z", "", true, ""},
		{"2026-01-02T03:10:00.5+00:00", "2026-01-02T03:20:00Z", true, ""},
		{"2026-01-02T03:20:00Z", "2026-01-02T03:20:00Z", false, "no time lies"},
		{"yesterday", "", false, "is no time"}, {"", "<script>", false, "is no time"},
	} {
		_, zoomed, err := ParseWindow(tt.from, tt.to, whole)
		if zoomed != tt.zoomed || (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("%q to %q: %v, %v", tt.from, tt.to, zoomed, err)
		}
	}
}

// The page of a run says its numbers as its records have them.
func TestRunOf(t *testing.T) {
	t.Parallel()
	in := input(30)
	in.View.Alarms = []runstatus.Alarm{{Code: runstatus.AlarmNoWorker, Text: "no worker is alive for 10 s",
		Advice: "start one"}}
	in.View.Waits = []api.Wait{{What: "worker", Detail: "no worker is alive for 10 s; start one"},
		{What: "batch", Owner: "trainer, step 30"}}
	in.History.Facts.Failures = []runhistory.Failure{{At: start.Add(time.Minute), Code: "timeout"}}
	in.History.Facts.Rates = []runhistory.Rate{{At: start.Add(time.Minute), Engine: "a", WindowSec: 60, Output: 600}}
	in.History.Facts.Happenings = []runhistory.Happening{{At: start.Add(time.Second), Kind: runhistory.Published,
		Text: "<b>v1</b> serving"}}
	step := rollout.Step(9)
	in.Report = &diagnosis.Report{Verdict: diagnosis.VerdictProblem,
		Severity: diagnosis.SeveritySlow, Brief: "starvation 50 %", Summary: "The trainer waits.",
		Findings: []diagnosis.Finding{{Text: "The trainer waits."}},
		Shifts:   []diagnosis.Shift{{At: step, DeltaSec: 10, Ratio: 2, First: steprecord.PhaseWait, Confirmed: true}},
		WhatIfs: []diagnosis.WhatIf{{Change: "engines 2 -> 4", Outcome: diagnosis.Helps, StepSec: 5,
			Command: "millrace engine add URL"}},
		Regime: diagnosis.Regime{StepSec: 10}}
	tabs, ids := map[string]Run{}, map[string]Table{}
	for _, in.Tab = range RunTabs() {
		v := RunOf(in)
		tabs[in.Tab] = v
		for _, p := range v.Panels {
			ids[p.ID] = p.Table
			if strings.Contains(string(p.Drawing), "<b>") {
				t.Errorf("%s has the markup of a text", p.ID)
			}
		}
	}
	v := tabs[OverviewTab]
	in.Tab, in.Report = OverviewTab, &diagnosis.Report{Severity: diagnosis.SeverityStuck,
		Summary: "No worker is alive for 9 s.", Findings: []diagnosis.Finding{
			{Text: "No worker is alive for 9 s."}, {Text: "Engines are slow."}}}
	again := RunOf(in)
	if !again.Told || v.Told || v.Findings[0].Text != "" || len(again.Findings) != 1 || again.StateClass != "bad" {
		t.Errorf("what the alarm or the verdict says is told again: %v, %v, %+v, %d findings; the run is %s", again.Told,
			v.Told, v.Findings, len(again.Findings), again.StateClass)
	}
	if v.Summary != "The trainer waits." || v.Verdict != "starvation 50 %" || v.VerdictClass != "warn" ||
		len(v.Jumps) != 1 ||
		!strings.Contains(v.Jumps[0], "From step 9 on, steps take +10 s (+100 %)") {
		t.Errorf("verdict %q %q, jumps %q", v.Verdict, v.Summary, v.Jumps)
	}
	for _, want := range []string{"step-time", "buffer", "output-by-engine", "output-by-version", "staleness", "reward",
		"zero-variance", "game-lengths", "failures"} {
		if len(ids[want].Rows) == 0 {
			t.Errorf("no chart %s", want)
		}
	}
	if row := ids["step-time"].Rows[9]; row.What != "step 9" || strings.Join(row.Cells(), " ") != "10 10 20" {
		t.Errorf("step 9 is %q: %q", row.What, row.Cells())
	}
	if row := ids["zero-variance"].Rows[0]; row.Values[0] != 25 {
		t.Errorf("zero variance: %v", row.Values[0])
	}
	if len(v.WhatIfs) != 1 || Than(v.WhatIfs[0].StepSec, v.StepSecNow) != "-50 %" || len(v.Waits) != 1 ||
		tabs[StepsTab].Steps[0].No != 29 || len(tabs[EventsTab].Happenings) != 1 {
		t.Errorf("what-ifs %+v, steps %+v, events %+v", v.WhatIfs, tabs[StepsTab].Steps, tabs[EventsTab].Happenings)
	}
	for i, want := range []string{"step", "step time", "trainer waits"} {
		if got := v.Figures[i].Name; got != want {
			t.Errorf("figure %d is %q, want %q", i, got, want)
		}
	}
	if len(ids["step-time"].Rows) != 30 {
		t.Errorf("the chart's table has %d rows", len(ids["step-time"].Rows))
	}
}

// An overview of a run without a diagnosis says the latest steps and those before them.
func TestOverviewOf(t *testing.T) {
	t.Parallel()
	all := steps(20)
	for i := range all[10:] {
		all[10+i].Sec, all[10+i].StarvedSec = 30, 15
	}
	over := runstatus.RunStatus{State: runstatus.RunStopped, StartedAt: start.Add(time.Hour),
		Spec: runspec.Spec{Name: "old"}}
	goes := runstatus.RunStatus{State: runstatus.RunRunning, StartedAt: start, Spec: runspec.Spec{Name: "demo", Steps: 40},
		NextStep: 20}
	v := OverviewOf(api.DeploymentStatus{}, []KnownRun{{Status: over}, {Status: goes, Steps: all}},
		[]enginestate.Engine{{ID: "e", State: enginestate.EngineLost, MaxInFlight: 4,
			Load: enginestate.EngineLoad{Running: 3}}}, true)
	if len(v.Runs) != 1 || v.Runs[0].Name != "demo" || len(v.Over) != 1 || v.Over[0].Name != "old" {
		t.Fatalf("runs %+v, over %+v", v.Runs, v.Over)
	}
	if r := v.Runs[0]; r.StepNow != "30 s" || r.StepBefore != "11 s" || r.Change != "+173 %" || r.Starved != "50 %" ||
		r.Step != "20 of 40" || r.Progress != 0.5 || r.Reward != "0.5" || r.RewardTrend == "" {
		t.Errorf("%+v", r)
	}
	if e := v.Engines[0]; e.BusyShare != 0.75 || e.Class != "bad" {
		t.Errorf("%+v", e)
	}
}
