package pageview

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/chart"
	"github.com/millrace/millrace/internal/web/runhistory"
)

// The ends of names by which a trainer tells an evaluation's interval, beside the evaluation itself: both ends, or the
// standard error.
const (
	lowEnd   = "_low"
	highEnd  = "_high"
	errorEnd = "_stderr"
)

// mostEvaluationPanels is how many evaluations have a chart.
const mostEvaluationPanels = 6

// evaluations is a chart for each evaluation that the trainer tells, with its interval if it tells one.
func (w Window) evaluations(steps []runhistory.Step) []Panel {
	points := map[string][]evaluationPoint{}
	var names []string
	for i := range steps {
		s := &steps[i]
		if s.At.Before(w.From) || s.At.After(w.To) {
			continue
		}
		told := map[string]float64{}
		for _, e := range s.Evaluations {
			told[e.Name] = e.Value
		}
		for _, e := range s.Evaluations {
			if strings.HasSuffix(e.Name, lowEnd) || strings.HasSuffix(e.Name, highEnd) || strings.HasSuffix(e.Name, errorEnd) {
				continue
			}
			if points[e.Name] == nil {
				names = append(names, e.Name)
			}
			points[e.Name] = append(points[e.Name], newEvaluationPoint(s, e, told))
		}
	}
	slices.Sort(names)
	var panels []Panel
	for i, name := range names[:min(len(names), mostEvaluationPanels)] {
		panels = append(panels, w.evaluation(fmt.Sprintf("evaluation-%d", i), name, points[name]))
	}
	return panels
}

// evaluationPoint is one evaluation of one version; its ends are not numbers where none are told.
type evaluationPoint struct {
	step             *runhistory.Step
	value, low, high float64
}

func newEvaluationPoint(s *runhistory.Step, e runhistory.Evaluation, told map[string]float64) evaluationPoint {
	p := evaluationPoint{s, e.Value, math.NaN(), math.NaN()}
	low, hasLow := told[e.Name+lowEnd]
	high, hasHigh := told[e.Name+highEnd]
	if hasLow && hasHigh {
		p.low, p.high = low, high
	} else if wrong, has := told[e.Name+errorEnd]; has {
		p.low, p.high = e.Value-1.96*wrong, e.Value+1.96*wrong
	}
	return p
}

// evaluation draws one; of very many points the latest of each part of the window.
func (w Window) evaluation(id, name string, all []evaluationPoint) Panel {
	p := Panel{ID: id, Title: "Evaluation " + harmless(name), Says: "As the trainer tells it with its steps, by policy " +
		"version. Its interval is drawn where the trainer tells one.",
		Legend: []Legend{{"d", harmless(name)}}, Table: Table{Columns: []string{"value", "low", "high"}}}
	line := chart.PanelLine{Name: "value", Class: "d"}
	var c chart.Panel
	every := max(1, (len(all)+mostBuckets-1)/mostBuckets)
	for i := (len(all) - 1) % every; i < len(all); i += every {
		e := all[i]
		at := sec(e.step.At)
		p.Table.add(fmt.Sprintf("version %d", e.step.Version), e.step.At, e.value, e.low, e.high)
		line.Points = append(line.Points, chart.Point{X: at, Y: e.value, Low: e.low, High: e.high})
		width := w.seconds() / mostBuckets / 2
		c.Columns = append(c.Columns, chart.Column{From: at - width, To: at + width,
			Tip: p.Table.tip(len(p.Table.Rows) - 1)})
	}
	c.Lines = []chart.PanelLine{line}
	return w.panel(p, c)
}
