package tablerow

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Run is a run as the API tells it, with the record of its last completed step; nil: none, or not read.
type Run struct {
	api.RunView
	Last *steprecord.StepRecord `json:"-"`
	// Level and Brief are how it goes and why, by its diagnosis; empty: not known.
	Level diagnosis.Severity `json:"-"`
	Brief string             `json:"-"`
}

// Name is what the API knows the run by.
func (r *Run) Name() rollout.RunName { return cmp.Or(r.ID, r.Spec.Name) }

// RunRow is the cells of a run. Cells that need a reading of the whole run are dashes without one.
type RunRow struct {
	Name, State, Step, Policy               string
	StepSec, Wait, Staleness                string // of its last step
	Ready, Failed, OutputTPS, InFlight      string
	Wrong                                   string // what it suffers from, or why it is over
	Grade                                   Grade  // of what is wrong
	Depth, GroupsPerStep, Outstanding, Note string // Note is the reason of its state, with what is wrong
}

// RowOfRun makes the cells of a run.
func RowOfRun(r *Run) RunRow {
	row := RunRow{
		Name: string(r.Name()), State: string(r.State), Step: fmt.Sprintf("%d/%d", r.NextStep, r.Spec.Steps),
		Policy: fmt.Sprintf("v%d", r.PolicyVersion), StepSec: "-", Wait: "-", Staleness: "-", OutputTPS: "-",
		Ready: fmt.Sprintf("%.1f", r.ReadyDepth), Failed: fmt.Sprint(r.Attempts.Failed),
		InFlight: fmt.Sprint(r.Buffer.InFlight), Depth: fmt.Sprint(r.Spec.Buffer.Depth),
		GroupsPerStep: fmt.Sprint(r.Spec.Buffer.GroupsPerStep), Outstanding: fmt.Sprint(r.Outstanding),
		Note: inCell(cmp.Or(r.Reason, Condition(r.RunStatus))),
	}
	if last := r.Last; last != nil {
		row.StepSec, row.Staleness = Seconds(last.StepSec()), fmt.Sprint(last.Service.StalenessMax)
		row.Wait = units.Percent(units.Share(last.StepPhases()[steprecord.PhaseWait], last.StepSec()))
	}
	if r.Fleet != nil {
		row.OutputTPS = whole(r.Fleet.OutputTPS)
	}
	row.Wrong, row.Grade = wrong(r)
	return row
}

// inCell is a text that fits a table's cell; of a longer one its beginning, which run show has whole.
func inCell(text string) string {
	const most = 120
	letters := []rune(text)
	if len(letters) <= most {
		return text
	}
	return strings.TrimSpace(string(letters[:most])) + "..."
}

// wrong is the run's worst problem, with its level: the one that hides the others.
func wrong(r *Run) (string, Grade) {
	condition := Condition(r.RunStatus)
	switch {
	case len(r.Alarms) > 0:
		return "stuck: " + r.Alarms[0].Text, Bad
	case r.State == runstatus.RunFailed || r.State == runstatus.RunLost:
		return r.Reason, Bad
	case condition != "":
		return condition, Warn
	case r.Level == diagnosis.SeveritySlow && !r.State.Over():
		return "slow: " + r.Brief, Warn
	case r.State == runstatus.RunPaused:
		return cmp.Or(r.Reason, "paused"), Warn
	case r.State.Over():
		return r.Reason, Plain
	case r.Brief != "":
		return string(r.Level) + ": " + r.Brief, Plain
	}
	return "", Plain
}

// Condition is what is wrong with a run that goes on, in a few words; empty: nothing.
func Condition(r runstatus.RunStatus) string {
	var parts []string
	if v := r.RewardVariance; v.Collapsed {
		parts = append(parts, fmt.Sprintf("no reward variance (%d of %d groups)", v.ZeroVariance, v.Groups))
	}
	if r.Throttle != "" {
		parts = append(parts, "throttled by "+string(r.Throttle))
	}
	return strings.Join(parts, ", ")
}

// TrainerWait is the trainer's wait for a batch, or nil.
func (r *Run) TrainerWait() *api.Wait {
	for i := range r.Waits {
		if r.Waits[i].What == "batch" {
			return &r.Waits[i]
		}
	}
	return nil
}
