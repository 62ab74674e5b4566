package pageview

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/kit/chart"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Overview is the first page: every run and every engine in a row.
type Overview struct {
	Status    api.DeploymentStatus
	Problems  []Problem
	Urgent    int      // of them
	Runs      []RunRow // that go on
	Over      []RunRow
	MoreRuns  int // that are over, and not shown
	Engines   []EngineRow
	ShowFleet bool // the visitor may see what all runs share
	Scaled    FleetSummary
}

// Problem is what is wrong, with the class of its level.
type Problem struct {
	api.Trouble
	Class tablerow.Grade
}

// KnownRun is what is known of one run.
type KnownRun struct {
	Status runstatus.RunStatus
	Totals *api.RunTotals // of one that goes on
	Steps  []runhistory.Step
	Report *diagnosis.Report // nil: not made yet
}

// RunRow is a run in a row.
type RunRow struct {
	Name, Href, State, StateClass, Reason string
	StartedAt                             time.Time
	Step, StepShare                       string
	Progress                              float64 // a share
	StepNow, StepBefore, Change           string
	ChangeClass, StarvedClass             tablerow.Grade
	Starved                               string
	Reward                                string
	RewardTrend                           template.HTML
	Staleness                             string
	Buffer                                string
	Verdict, VerdictClass                 string
	Cost, CostTip                         string
}

// EngineRow is an engine in a row.
type EngineRow struct {
	enginestate.Engine
	Class               tablerow.Grade
	BusyShare, Requests float64 // of its limit
	Closed              string
}

// MostRunsOver is how many of the runs that are over the overview shows.
const MostRunsOver = 30

// OverviewOf makes the overview: runs that go on first, then the latest of the others.
func OverviewOf(status api.DeploymentStatus, runs []KnownRun, engines []enginestate.Engine, fleet bool) Overview {
	v := Overview{Status: status, ShowFleet: fleet}
	for _, p := range status.Problems {
		p.What, p.Advice = Brief(p.What), Brief(p.Advice)
		class := map[diagnosis.Severity]tablerow.Grade{diagnosis.SeverityStuck: tablerow.Bad,
			diagnosis.SeveritySlow: tablerow.Warn}[p.Level]
		v.Problems = append(v.Problems, Problem{p, class})
		if p.Urgent() {
			v.Urgent++
		}
	}
	slices.SortStableFunc(runs, func(a, b KnownRun) int {
		if over := a.Status.State.Over(); over != b.Status.State.Over() {
			if over {
				return 1
			}
			return -1
		}
		return b.Status.StartedAt.Compare(a.Status.StartedAt)
	})
	over := 0
	for _, r := range runs {
		if r.Status.State.Over() {
			if over++; over > MostRunsOver {
				v.MoreRuns++
				continue
			}
		}
		if r.Status.State.Over() {
			v.Over = append(v.Over, runRow(r))
		} else {
			v.Runs = append(v.Runs, runRow(r))
		}
	}
	for _, e := range engines {
		v.Engines = append(v.Engines, engineRow(e, status.At))
	}
	return v
}

func runRow(r KnownRun) RunRow {
	s := r.Status
	name := string(s.Spec.Name.Plain())
	row := RunRow{
		Name: name, Href: "runs/" + name, State: string(s.State), StateClass: string(tablerow.RunGrade(s.State)),
		Reason:    Brief(s.Reason),
		StartedAt: s.StartedAt, Step: fmt.Sprintf("%d of %d", s.NextStep, s.Spec.Steps),
	}
	if s.Spec.Steps > 0 {
		row.Progress = float64(s.NextStep) / float64(s.Spec.Steps)
	}
	l := levels(r)
	if l.Now > 0 {
		row.StepNow = units.Seconds(l.Now)
		row.Starved, row.StarvedClass = units.Percent(l.Starved), Graded(l.Starved)
	}
	if l.Before > 0 {
		row.StepBefore = units.Seconds(l.Before)
		change := l.Now/l.Before - 1
		row.Change, row.ChangeClass = SignedPercent(change), Graded(change)
	}
	row.Reward, row.RewardTrend = rewardTrend(r.Steps)
	if n := len(r.Steps); n > 0 {
		last := r.Steps[n-1]
		row.Staleness = fmt.Sprintf("%s (max %d)", units.Number(last.StalenessMean), last.StalenessMax)
		row.Cost, row.CostTip = cost(r.Steps)
	}
	if t := r.Totals; t != nil {
		row.Buffer = fmt.Sprintf("%d queued, %d in flight, %d ready", t.Queued, t.InFlight, t.Ready)
	}
	if r.Report != nil {
		row.Verdict, row.VerdictClass = VerdictWord(r.Report)
	}
	if t := r.Totals; t != nil && t.Level == diagnosis.SeverityStuck { // also before it is diagnosed
		row.Verdict, row.VerdictClass, row.StateClass = t.Brief, "bad", "bad"
	}
	return row
}

// recentSteps is how many steps are "now" where no diagnosis has told the levels.
const recentSteps = 10

// Levels is the step time now and before, and the share of it that the trainer waits now.
type Levels struct{ Now, Before, Starved float64 }

// levels is by the diagnosis' levels, or of the latest steps and as many before them.
func levels(r KnownRun) (l Levels) {
	if r.Report != nil && len(r.Report.Levels) > 0 {
		all := r.Report.Levels
		last := all[len(all)-1]
		if len(all) > 1 {
			l.Before = all[len(all)-2].StepSec
		}
		l.Now, l.Starved = last.StepSec, units.Share(last.PhaseSec[steprecord.PhaseWait], last.StepSec)
		return l
	}
	n := min(recentSteps, (len(r.Steps)+1)/2)
	if n == 0 {
		return l
	}
	mean := func(steps []runhistory.Step) (sec, waited float64) {
		for _, s := range steps {
			sec, waited = sec+s.Sec/float64(len(steps)), waited+s.StarvedSec/float64(len(steps))
		}
		return sec, waited
	}
	first := len(r.Steps) - n
	now, waited := mean(r.Steps[first:])
	l.Now, l.Starved = now, units.Share(waited, now)
	l.Before, _ = mean(r.Steps[max(0, first-n):first])
	return l
}

// cost is what the engines have cost the run: their hours, and the tokens of what was trained on.
func cost(steps []runhistory.Step) (text, tip string) {
	hours := 0.0
	var tokens rollout.Usage
	for _, s := range steps {
		hours += s.Engines * (s.Sec + s.PrefillSec) / 3600
		tokens = tokens.Add(s.Tokens)
	}
	return units.Number(hours), fmt.Sprintf("time of the ready engines over the steps that are kept; "+
		"the games that were trained on had %s input and %s output tokens", Count(tokens.InputTokens),
		Count(tokens.OutputTokens))
}

func engineRow(e enginestate.Engine, now time.Time) EngineRow {
	row := EngineRow{Engine: e, Class: tablerow.EngineGrade(e.State), Requests: e.Load.Running + e.Load.Waiting,
		BusyShare: min(1, tablerow.SlotShare(e))}
	for _, c := range e.Closures {
		row.Closed = cmp.Or(row.Closed, Brief(c.Text(now)))
	}
	return row
}

// sparkPoints is how many points a trend has at most.
const sparkPoints = 40

// rewardTrend is the mean reward of the latest steps, and a line of those before.
func rewardTrend(steps []runhistory.Step) (string, template.HTML) {
	var values []float64
	for from := 0; from < len(steps); {
		to := min(len(steps), from+max(1, (len(steps)+sparkPoints-1)/sparkPoints))
		var mean stat.GroupedMean
		for _, s := range steps[from:to] {
			mean = mean.Add(s.Reward)
		}
		if mean.N == 0 {
			mean.Mean = math.NaN()
		}
		values, from = append(values, mean.Mean), to
	}
	n := len(values)
	if n == 0 || math.IsNaN(values[n-1]) {
		return "", ""
	}
	text := strconv.FormatFloat(values[n-1], 'g', 3, 64)
	return text, drawn(func(b *bytes.Buffer) error {
		return chart.Spark(b, fmt.Sprintf("mean reward over the steps, %.3g at first, %s now", values[0], text), "value",
			values)
	})
}
