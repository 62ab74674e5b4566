package pageview

import (
	"fmt"

	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Figure is one number with its name. Note says in small what else there is to it.
type Figure struct {
	Name, Value, Tip, Note string
	Class                  tablerow.Grade
	Bar                    []BarPart
}

// BarPart is a coloured part of a bar, in percent of its width.
type BarPart struct {
	Class     string
	From, Len float64
}

// bar is parts of a whole beside each other.
func bar(whole float64, classes []string, sizes ...int) []BarPart {
	var parts []BarPart
	from := 0.0
	for i, size := range sizes {
		part := 100 * units.Share(float64(size), whole)
		parts = append(parts, BarPart{classes[i], from, part})
		from += part
	}
	return parts
}

// runFigures is a run in figures, the first of them what a look at a telephone is for.
func runFigures(in RunInput) []Figure {
	s, b := in.View.RunStatus, in.View.Buffer
	figures := []Figure{{Name: "step", Value: Count(int64(s.NextStep)), Tip: "completed steps",
		Note: fmt.Sprintf("of %s", Count(int64(s.Spec.Steps))),
		Bar:  bar(float64(s.Spec.Steps), []string{"train"}, int(s.NextStep))}}
	if l := levels(KnownRun{Status: s, Steps: in.History.Steps, Report: in.Report}); l.Now > 0 {
		now := Figure{Name: "step time", Value: units.Seconds(l.Now), Tip: "of the present level of steps"}
		if l.Before > 0 {
			now.Note = fmt.Sprintf("%s from %s", SignedPercent(l.Now/l.Before-1), units.Seconds(l.Before))
		}
		figures = append(figures, now, Figure{Name: "trainer waits", Value: units.Percent(l.Starved),
			Tip: "share of the step time", Note: "of the step time", Class: Graded(l.Starved)})
	}
	if !s.State.Over() {
		figures = append(figures, bufferFigure(b, s.Spec.Buffer.Depth*s.Spec.Buffer.GroupsPerStep))
	}
	if n := len(in.History.Steps); n > 0 {
		last := in.History.Steps[n-1]
		input, output := trainedRates(in.History.Steps[max(0, n-recentSteps):])
		hours, tip := cost(in.History.Steps)
		figures = append(figures, Figure{Name: "staleness", Value: units.Number(last.StalenessMean),
			Tip:  "of the last batch, in policy versions",
			Note: fmt.Sprintf("max %d of %d allowed", last.StalenessMax, s.Spec.Buffer.MaxStaleness)},
			Figure{Name: "trained output", Value: Rate(output), Note: Rate(input) + " in",
				Tip: "tokens of the games that were trained on, over the time of the latest steps"},
			Figure{Name: "engine hours", Value: hours, Tip: tip})
	}
	if in.Report != nil && in.Report.Goodput > 0 {
		figures = append(figures, Figure{Name: "goodput", Value: units.Percent(in.Report.Goodput),
			Tip: "share of the wall time that was useful compute"})
	}
	figures = append(figures, Figure{Name: "policy version", Value: fmt.Sprint(s.PolicyVersion),
		Tip: "the newest that serves"})
	if b.Dropped > 0 {
		figures = append(figures, Figure{Name: "dropped groups", Value: Count(int64(b.Dropped)),
			Tip: "failed, cancelled or too stale"})
	}
	if f := in.View.Fleet; f != nil && !s.State.Over() {
		figures = append(figures, Figure{Name: "fleet busy", Value: units.Percent(f.BusyShare),
			Tip:  "all engines, for all runs, in the last minute",
			Note: fmt.Sprintf("of %s engines", units.Number(f.Engines))})
	}
	return figures
}

// trainedRates is the tokens of what steps trained on, per second of these.
func trainedRates(steps []runhistory.Step) (input, output float64) {
	sec := 0.0
	var tokens rollout.Usage
	for _, s := range steps {
		sec, tokens = sec+s.Sec, tokens.Add(s.Tokens)
	}
	return units.Share(float64(tokens.InputTokens), sec), units.Share(float64(tokens.OutputTokens), sec)
}

// bufferFigure is where a run's groups are.
func bufferFigure(b steprecord.BufferCounts, target int) Figure {
	ready, playing, queued, claimed := int(b.Ready), int(b.InFlight), int(b.Queued), int(b.Claimed)
	whole := float64(max(target, ready+playing+queued) + claimed)
	return Figure{Name: "buffer", Value: fmt.Sprintf("%d ready", ready),
		Tip:  fmt.Sprintf("groups; %d are to be ready, in flight or queued", target),
		Note: fmt.Sprintf("%d in flight, %d queued, %d claimed", playing, queued, claimed),
		Bar:  bar(whole, []string{"ready", "in_flight", "queued", "claimed"}, ready, playing, queued, claimed)}
}
