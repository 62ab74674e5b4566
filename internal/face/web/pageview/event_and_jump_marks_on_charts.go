package pageview

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/kit/chart"
	"github.com/millrace/millrace/internal/kit/units"
)

// mostFlags is how many marks a chart has at most.
const mostFlags = 48

// flags are what happened in the window, what is near each other and of one kind as one.
func (w Window) flags(all []runhistory.Happening, jumps []chart.Flag) []chart.Flag {
	var flags []chart.Flag
	type place struct {
		kind runhistory.HappeningKind
		part int
	}
	texts := map[place][]string{}
	var order []place
	first, news := map[place]time.Time{}, map[place]bool{}
	for _, h := range all {
		if h.At.Before(w.From) || h.At.After(w.To) {
			continue
		}
		p := place{h.Kind, int(h.At.Sub(w.From).Seconds() / w.seconds() * mostFlags)}
		if texts[p] == nil {
			order, first[p] = append(order, p), h.At
		}
		news[p] = news[p] || !h.Routine
		texts[p] = append(texts[p], h.At.UTC().Format("15:04:05 UTC ")+Brief(h.Text))
	}
	const most = 4
	for _, p := range order {
		lines := texts[p]
		if len(lines) > most {
			lines = append(slices.Clone(lines[:most]), fmt.Sprintf("and %d more", len(texts[p])-most))
		}
		flags = append(flags, chart.Flag{At: sec(first[p]), Class: string(p.kind), Tip: strings.Join(lines, "\n"),
			Minor: !news[p]})
	}
	slices.SortStableFunc(flags, func(a, b chart.Flag) int { // on top of the others what is news
		switch {
		case a.Minor == b.Minor:
			return 0
		case a.Minor:
			return -1
		}
		return 1
	})
	return append(flags, jumps...)
}

// flagNames are the sorts of marks as a legend says them.
var flagNames = []Legend{{"jump", "jump of the step time"}, {string(runhistory.Failed), "failure"},
	{string(runhistory.EngineChanged), "engine"}, {string(runhistory.SpecChanged), "change"},
	{string(runhistory.Published), "publication"}}

// marksOf is the legend of a chart's flags.
func marksOf(flags []chart.Flag) []Legend {
	return slices.DeleteFunc(slices.Clone(flagNames), func(l Legend) bool {
		return !slices.ContainsFunc(flags, func(f chart.Flag) bool { return f.Class == l.Class })
	})
}

// jumps are the changes of level that the diagnosis found.
func jumps(report *diagnosis.Report, steps []runhistory.Step) []chart.Flag {
	if report == nil {
		return nil
	}
	var flags []chart.Flag
	largest := 0.0 // that one has a label: those of several would lie over each other
	for _, shift := range report.Shifts {
		largest = max(largest, math.Abs(shift.DeltaSec))
	}
	for _, shift := range report.Shifts {
		i := slices.IndexFunc(steps, func(s runhistory.Step) bool { return s.No == shift.At })
		if i < 0 {
			continue
		}
		flag := chart.Flag{At: sec(startOf(steps[i])), Class: "jump", Tip: jumpText(shift)}
		if math.Abs(shift.DeltaSec) >= largest {
			flag.Label = fmt.Sprintf("%s, mostly %s", units.SignedSeconds(shift.DeltaSec), phaseName(shift.First))
		}
		flags = append(flags, flag)
	}
	return flags
}

func jumpText(s diagnosis.Shift) string {
	text := fmt.Sprintf("From step %d on, steps take %s (%s), most of it %s", s.At, units.SignedSeconds(s.DeltaSec),
		SignedPercent(s.Ratio-1), phaseName(s.First))
	if !s.Confirmed {
		text += "; more steps are needed to be sure"
	}
	return text
}
