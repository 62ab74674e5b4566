// Package plantext writes a plan for a person: the table of settings, the recommendation, and what it rests on. What
// it recommends is decided in package plan. Start reading at Write.
package plantext

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/simulate/plan"
)

// Write writes a plan, its table at most width characters wide; 0: any width.
func Write(w io.Writer, p *plan.Plan, width int) error {
	if len(p.Conditions) > 0 {
		text := "What if " + strings.Join(p.Conditions, ", and ")
		if slices.ContainsFunc(p.Cells, func(c plan.Cell) bool { return c.BeforeSec > 0 }) {
			text += "; BEFORE is the steady step before that"
		}
		if _, err := io.WriteString(w, text+".\n\n"); err != nil {
			return err
		}
	}
	t := tableOf(p)
	if err := t.Write(w, width); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(legend(p))
	for _, line := range refusals(p) {
		b.WriteString(line + "\n")
	}
	b.WriteString("\n")
	if !p.Complete {
		fmt.Fprintf(&b, "Interrupted: what follows is of the %d settings above.\n", len(p.Cells))
	}
	for _, rec := range p.Recommendations {
		writeRecommendation(&b, p, rec)
	}
	if c := p.Unchanged; c != nil {
		fmt.Fprintf(&b, "  without that (%s): %s\n", strings.Join(p.Conditions, ", "), units.Seconds(c.Step.Mean))
	}
	for _, note := range p.Notes {
		fmt.Fprintf(&b, "Note: %s.\n", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeRecommendation(b *strings.Builder, p *plan.Plan, rec plan.Recommendation) {
	name := "Recommended"
	if len(p.Recommendations) > 1 {
		name = fmt.Sprintf("For %d groups of %d games a step", rec.Groups, rec.Samples)
	}
	if rec.Setting == nil || !rec.Meets {
		name = strings.Replace(name, "Recommended", "Nothing to recommend", 1)
	}
	fmt.Fprintf(b, "%s: %s.\n", name, rec.Text)
	for _, reason := range rec.Reasons {
		fmt.Fprintf(b, "  %s\n", reason)
	}
}

// The marks before a setting.
const (
	recommended = "→"
	frontier    = "*"
	unsteady    = "~"
)

func tableOf(p *plan.Plan) *table.Table {
	batches := func(of func(plan.Setting) int) bool {
		return slices.ContainsFunc(p.Cells, func(c plan.Cell) bool { return of(c.Setting) != of(p.Cells[0].Setting) })
	}
	groups := batches(func(s plan.Setting) int { return s.Groups })
	samples := batches(func(s plan.Setting) int { return s.Samples })
	before := slices.ContainsFunc(p.Cells, func(c plan.Cell) bool { return c.BeforeSec > 0 })
	dropped := slices.ContainsFunc(p.Cells, func(c plan.Cell) bool { return c.DroppedShare >= 0.005 })

	type column struct {
		head table.Column
		cell func(c *plan.Cell) string
		show bool
	}
	number := func(head string, show bool, of func(c *plan.Cell) string) column {
		return column{table.Right(head), of, show}
	}
	columns := []column{
		{table.Left(""), func(c *plan.Cell) string { return mark(p, c) }, true},
		number("ENGINES", true, func(c *plan.Cell) string { return strconv.Itoa(c.Engines) }),
		number("DEPTH", true, depthText),
		number("GROUPS", groups, func(c *plan.Cell) string { return strconv.Itoa(c.Groups) }),
		number("GAMES", samples, func(c *plan.Cell) string { return strconv.Itoa(c.Samples) }),
		number("BEFORE s", before, func(c *plan.Cell) string { return units.Number(c.BeforeSec) }),
		number("STEP s", true, func(c *plan.Cell) string { return units.Number(c.Step.Mean) }),
		number("±", p.Seeds > 1, func(c *plan.Cell) string { return units.Number(max(0, c.Step.Half)) }),
		number("STARVED", true, func(c *plan.Cell) string { return units.Percent(c.StarvedShare) }),
		number("STALE", true, func(c *plan.Cell) string { return fmt.Sprintf("%.1f", c.StalenessMean) }),
		number("MAX", true, func(c *plan.Cell) string { return strconv.FormatInt(c.StalenessMax, 10) }),
		number("DROPPED", dropped, func(c *plan.Cell) string { return units.Percent(c.DroppedShare) }),
		number("BUSY", true, func(c *plan.Cell) string { return units.Percent(c.BusyShare) }),
		number("SLOTS", true, func(c *plan.Cell) string { return units.Percent(c.SlotShare) }),
		number("IN tok/s", true, func(c *plan.Cell) string { return fmt.Sprintf("%.0f", c.InputTPS) }),
		number("OUT tok/s", true, func(c *plan.Cell) string { return fmt.Sprintf("%.0f", c.OutputTPS) }),
		number("GPU-h/step", true, func(c *plan.Cell) string { return strconv.FormatFloat(c.EngineHours, 'g', 3, 64) }),
		number("$/step", p.Price > 0, func(c *plan.Cell) string { return plan.Dollars(c.StepCost) }),
		number("$/Mtok", p.Price > 0, func(c *plan.Cell) string { return plan.Dollars(c.TokenCost) }),
		number("PREFILL s", true, func(c *plan.Cell) string { return units.Number(c.PrefillSec) }),
	}
	columns = slices.DeleteFunc(columns, func(c column) bool { return !c.show })
	heads := make([]table.Column, len(columns))
	for i, c := range columns {
		heads[i] = c.head
	}
	t := table.New(heads...)
	for i := range p.Cells {
		c := &p.Cells[i]
		if c.Refused != "" {
			continue
		}
		row := make([]string, len(columns))
		for k, col := range columns {
			row[k] = col.cell(c)
		}
		t.Row(row...)
	}
	return t
}

// depthText is a depth, with ! where the run's max_staleness does not admit it.
func depthText(c *plan.Cell) string {
	if c.NeedsStaleness > 0 {
		return strconv.Itoa(c.Depth) + "!"
	}
	return strconv.Itoa(c.Depth)
}

func mark(p *plan.Plan, c *plan.Cell) string {
	text := ""
	for _, rec := range p.Recommendations {
		if rec.Setting != nil && *rec.Setting == c.Setting && rec.Meets {
			text = recommended
		}
	}
	if c.Frontier {
		text += frontier
	}
	if c.Unsteady {
		text += unsteady
	}
	if p.Now != nil && p.Now.Setting == c.Setting {
		text += " now"
	}
	return strings.TrimSpace(text)
}

// legend explains the marks and the columns.
func legend(p *plan.Plan) string {
	respects := "step, engines and staleness"
	if p.Price > 0 {
		respects = "step and $/step"
	}
	text := fmt.Sprintf("%s recommended  %s no other setting is better in one of %s and worse in none", recommended,
		frontier, respects)
	if slices.ContainsFunc(p.Cells, func(c plan.Cell) bool { return c.NeedsStaleness > 0 }) {
		text += "  ! held by max_staleness"
	}
	text += "\nSimulated: steady steps, without the prefill; "
	if p.Seeds > 1 {
		text += fmt.Sprintf("± is the 95 %% interval of %d seeds; ", p.Seeds)
	}
	text += "STALE and MAX in versions; BUSY: an engine has a request, SLOTS: of those that it takes at once"
	if p.Price > 0 {
		text += fmt.Sprintf(";\n$ is the engines' at %s an hour each, without the trainer's; Mtok: a million trained tokens",
			plan.Dollars(p.Price))
	}
	return text + ".\n"
}

// refusals says which settings have no figures, and why, each reason once.
func refusals(p *plan.Plan) []string {
	var reasons []string
	count := map[string]int{}
	first := map[string]plan.Setting{}
	for _, c := range p.Cells {
		if c.Refused == "" {
			continue
		}
		if count[c.Refused]++; count[c.Refused] == 1 {
			reasons, first[c.Refused] = append(reasons, c.Refused), c.Setting
		}
	}
	var out []string
	for _, reason := range reasons {
		s := first[reason]
		which := fmt.Sprintf("engines %d, depth %d, groups %d, games %d", s.Engines, s.Depth, s.Groups, s.Samples)
		if n := count[reason]; n > 1 {
			which += fmt.Sprintf(", and %d more", n-1)
		}
		out = append(out, fmt.Sprintf("Not simulated: %s: %s", which, reason))
	}
	return out
}
