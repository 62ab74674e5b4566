// Package report writes results of experiments for people: as text for a terminal, as a page of documentation, and as
// drawings.
//
// Start reading at WriteText and WriteSection.
package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/experiment"
	"github.com/millrace/millrace/internal/interval"
	"github.com/millrace/millrace/internal/table"
	"github.com/millrace/millrace/internal/units"
)

// WriteText writes the tables and the claims with their verdicts, at most width characters wide; 0: any width. With
// compare, every part that has a baseline says how its cells differ from it.
func WriteText(w io.Writer, r *experiment.Result, width int, compare bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Name, r.Title)
	if r.Source != "" {
		fmt.Fprintf(&b, "claims from: %s\n", r.Source)
	}
	if r.Arrivals != "" {
		fmt.Fprintf(&b, "arrivals: %s, so that verdicts are about these, and not about the note's\n", r.Arrivals)
	}
	if note := seedsNote(r); note != "" {
		fmt.Fprintln(&b, note)
	}
	for i := range r.Parts {
		if err := writePart(&b, r, i, width, compare); err != nil {
			return err
		}
	}
	if err := writeClaims(&b, r, width); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func seedsNote(r *experiment.Result) string {
	most := 0
	for _, p := range r.Parts {
		for _, c := range p.Cells {
			for _, f := range c.Values {
				most = max(most, f.N)
			}
		}
	}
	if most < 2 {
		return ""
	}
	return fmt.Sprintf("%d seeds where chance plays; ± is half of a 95 %% interval", most)
}

func writePart(b *strings.Builder, r *experiment.Result, i, width int, compare bool) error {
	part := r.Experiment.Parts[i]
	fmt.Fprintf(b, "\n%s: %s\n", part.Name, part.Title)
	for _, line := range wrap(part.About, cmp.Or(width, 120)) {
		fmt.Fprintln(b, line)
	}
	heads, rows := partRows(r, i)
	columns := make([]table.Column, len(heads))
	for k, head := range heads {
		columns[k] = table.Right(head)
		if k < len(part.Axes) {
			columns[k] = table.Left(head)
		}
	}
	t := table.New(columns...)
	for _, row := range rows {
		t.Row(row...)
	}
	if err := t.Write(b, width); err != nil {
		return err
	}
	if compare {
		return writeComparison(b, r, i, width)
	}
	return nil
}

// partRows is a part as a table: axes, then metrics.
func partRows(r *experiment.Result, i int) (heads []string, rows [][]string) {
	part := r.Experiment.Parts[i]
	for _, axis := range part.Axes {
		heads = append(heads, strings.ToUpper(strings.ReplaceAll(axis.Name, "_", " ")))
	}
	for _, name := range part.Columns {
		m, _ := experiment.MetricNamed(name)
		heads = append(heads, m.Head)
	}
	for k := range r.Parts[i].Cells {
		cell := &r.Parts[i].Cells[k]
		var row []string
		for _, at := range cell.At {
			row = append(row, at.Point)
		}
		for _, name := range part.Columns {
			m, _ := experiment.MetricNamed(name)
			row = append(row, figureText(m, cell))
		}
		rows = append(rows, row)
	}
	return heads, rows
}

func figureText(m experiment.Metric, cell *experiment.CellResult) string {
	f, ok := cell.Figure(m.Name)
	if !ok {
		return "-"
	}
	number, unit := units.Number, ""
	if m.Share {
		number, unit = func(x float64) string { return units.Number(100 * x) }, " %"
	}
	if !f.Known() || number(f.Half) == "0" {
		return number(f.Mean) + unit
	}
	return number(f.Mean) + " ± " + number(f.Half) + unit
}

// writeComparison writes each metric of each cell as a multiple of the baseline's, seed by seed.
func writeComparison(b *strings.Builder, r *experiment.Result, i, width int) error {
	part := r.Experiment.Parts[i]
	if part.Baseline == "" {
		return nil
	}
	columns := []table.Column{}
	for _, axis := range part.Axes {
		columns = append(columns, table.Left(strings.ToUpper(axis.Name)))
	}
	for _, name := range part.Columns {
		m, _ := experiment.MetricNamed(name)
		columns = append(columns, table.Right(m.Head[:cmp.Or(max(0, strings.Index(m.Head, " (")), len(m.Head))]))
	}
	t := table.New(columns...)
	for k := range r.Parts[i].Cells {
		cell := &r.Parts[i].Cells[k]
		base := baselineOf(r, i, cell)
		if base == nil || base == cell {
			continue
		}
		var row []string
		for _, at := range cell.At {
			row = append(row, at.Point)
		}
		for _, name := range part.Columns {
			row = append(row, ratio(cell.Metrics[name], base.Metrics[name]))
		}
		t.Row(row...)
	}
	fmt.Fprintf(b, "\n%s, as multiples of %s\n", part.Name, part.Baseline)
	return t.Write(b, width)
}

// baselineOf is the cell that differs from another one only in being at the part's baseline.
func baselineOf(r *experiment.Result, i int, cell *experiment.CellResult) *experiment.CellResult {
	want := slices.Clone(cell.At)
	for _, place := range strings.Split(r.Experiment.Parts[i].Baseline, ",") {
		axis, point, _ := strings.Cut(place, "=")
		for k := range want {
			if want[k].Axis == strings.TrimSpace(axis) {
				want[k].Point = strings.TrimSpace(point)
			}
		}
	}
	for k := range r.Parts[i].Cells {
		if slices.Equal(r.Parts[i].Cells[k].At, want) {
			return &r.Parts[i].Cells[k]
		}
	}
	return nil
}

func ratio(values, base []float64) string {
	if len(values) == 0 || len(base) == 0 {
		return "-"
	}
	n := max(len(values), len(base))
	ratios := make([]float64, n)
	for k := range ratios {
		below := base[min(k, len(base)-1)]
		if below == 0 {
			return "-"
		}
		ratios[k] = values[min(k, len(values)-1)] / below
	}
	m := interval.Mean(ratios, 0.95)
	if !m.Known() || m.Half < 0.005 {
		return fmt.Sprintf("x%.2f", m.Mean)
	}
	return fmt.Sprintf("x%.2f ± %.2f", m.Mean, m.Half)
}

func writeClaims(b *strings.Builder, r *experiment.Result, width int) error {
	if len(r.Claims) == 0 {
		return nil
	}
	fmt.Fprintf(b, "\nclaims: %s\n", tally(r.Claims))
	for i, c := range r.Claims {
		fmt.Fprintf(b, "\n%2d  %-17s  %s\n", i+1, strings.ToUpper(c.Verdict.Text()), c.Name)
		t := table.New(table.Left(""), table.Left(""), table.Left(""))
		t.Row("   ", "says", c.Says)
		if c.Shows != "" {
			t.Row("   ", "shown by", c.Shows)
		}
		if c.Because != "" {
			t.Row("   ", "because", c.Because)
		}
		if c.Verdict != c.Expect && r.Arrivals == "" {
			t.Row("   ", "differs", "known beforehand: "+c.Expect.Text())
		}
		if err := t.Write(b, cmp.Or(width, 120)); err != nil {
			return err
		}
	}
	return nil
}

// tally is "3 hold, 4 do not hold, 1 cannot be decided".
func tally(claims []experiment.ClaimResult) string {
	count := map[experiment.Verdict]int{}
	for _, c := range claims {
		count[c.Verdict]++
	}
	return fmt.Sprintf("%d hold, %d do not hold, %d cannot be decided", count[experiment.Holds],
		count[experiment.DoesNotHold], count[experiment.Undecided])
}

// wrap is a text in lines of at most so many characters.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
