package plan

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/millrace/millrace/internal/chart"
	"github.com/millrace/millrace/internal/units"
)

// WriteSVG draws a plan: step time over engines, a line for each depth, and below it what a step time costs, in money
// or in engines.
func (p *Plan) WriteSVG(w io.Writer) error {
	var charts []chart.Chart
	for _, rec := range p.Recommendations {
		batch := Batch{rec.Groups, rec.Samples}
		charts = append(charts, p.stepChart(batch, rec), p.costChart(batch, rec))
	}
	return chart.WriteSheet(w, fmt.Sprintf("Plan of run %s", p.Run), charts...)
}

// cellsOf is the settings of a batch that have figures.
func (p *Plan) cellsOf(b Batch) []*Cell {
	var out []*Cell
	for i := range p.Cells {
		if c := &p.Cells[i]; c.Batch() == b && c.Refused == "" {
			out = append(out, c)
		}
	}
	return out
}

func (p *Plan) subtitle(b Batch) string {
	text := fmt.Sprintf("run %s, simulated: %s of %s a step, %s a setting", p.Run, count(b.Groups, "group"),
		count(b.Samples, "game"), count(p.Seeds, "seed"))
	for _, c := range p.Conditions {
		text += "; " + c
	}
	return text
}

// label names a setting in a drawing.
func (p *Plan) label(c *Cell, rec Recommendation) string {
	switch {
	case rec.Setting != nil && c.Setting == *rec.Setting:
		return fmt.Sprintf("recommended: %s, depth %d: %s", count(c.Engines, "engine"), c.Depth,
			units.Seconds(c.Step.Mean))
	case p.Now != nil && c.Setting == p.Now.Setting:
		return "now"
	}
	return ""
}

func (p *Plan) stepChart(b Batch, rec Recommendation) chart.Chart {
	c := chart.Chart{
		Title: "Step time by engines and depth", Subtitle: p.subtitle(b), Description: rec.Text,
		X: chart.Axis{Label: "engines", Whole: true}, Y: chart.Axis{Label: "steady step time", Unit: "s", FromZero: true},
	}
	cells := p.cellsOf(b)
	var depths []int
	for _, cell := range cells {
		depths = append(depths, cell.Depth)
	}
	slices.Sort(depths)
	for _, depth := range slices.Compact(depths) {
		s := chart.Series{Name: fmt.Sprintf("depth %d", depth)}
		for _, cell := range cells {
			if cell.Depth == depth {
				half := max(0, cell.Step.Half)
				s.Points = append(s.Points, chart.Point{X: float64(cell.Engines), Y: cell.Step.Mean,
					Low: cell.Step.Mean - half, High: cell.Step.Mean + half, Label: p.label(cell, rec)})
			}
		}
		c.Series = append(c.Series, s)
	}
	if p.TargetSec > 0 {
		c.Guides = append(c.Guides, chart.Guide{At: p.TargetSec, Label: "target " + units.Seconds(p.TargetSec)})
	}
	return c
}

// costChart shows which settings no other one beats.
func (p *Plan) costChart(b Batch, rec Recommendation) chart.Chart {
	c := chart.Chart{
		Title: "What a step time costs", Subtitle: p.subtitle(b), Description: rec.Text,
		X: chart.Axis{Label: "steady step time", Unit: "s"},
		Y: chart.Axis{Label: "engines", Whole: true, FromZero: true},
	}
	cost := func(cell *Cell) float64 { return float64(cell.Engines) }
	if p.Price > 0 {
		c.Y = chart.Axis{Label: "engines' cost of a step", Unit: "$", FromZero: true}
		cost = func(cell *Cell) float64 { return cell.StepCost }
	}
	others := chart.Series{Name: "other settings", Mark: chart.Dots, Context: true}
	best := chart.Series{Name: "no other setting is better", Mark: chart.Line}
	if p.Price == 0 {
		best.Mark = chart.Dots // three respects, of which two are shown
	}
	for _, cell := range p.cellsOf(b) {
		point := chart.Point{X: cell.Step.Mean, Y: cost(cell), Label: p.label(cell, rec)}
		if cell.Frontier {
			best.Points = append(best.Points, point)
			continue
		}
		others.Points = append(others.Points, point)
	}
	slices.SortStableFunc(best.Points, func(a, b chart.Point) int { return cmp.Compare(a.X, b.X) })
	c.Series = []chart.Series{others, best}
	if p.TargetSec > 0 {
		c.Guides = append(c.Guides, chart.Guide{At: p.TargetSec, Vertical: true, Label: "target"})
	}
	return c
}
