// Package report writes results of experiments for people: as a page, with drawings. Start reading at Write.
package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/trials/experiment"
)

// Write writes a result as a page whose drawings lie beside it.
func Write(w io.Writer, r *experiment.Result) error {
	var b strings.Builder
	e := r.Experiment
	fmt.Fprintf(&b, "# %s: %s\n\n", e.Name, e.Title)
	if e.Source != "" {
		fmt.Fprintf(&b, "Claims from %s. ", e.Source)
	}
	fmt.Fprintf(&b, "Again: `millrace-lab experiment %s`.\n", e.Name)
	if e.About != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.Join(wrap(e.About, 120), "\n"))
	}
	b.WriteString("\n" + conventions)
	if note := seedsNote(r); note != "" {
		fmt.Fprintf(&b, "\n%s.\n", note)
	}
	if len(r.Claims) > 0 {
		fmt.Fprintf(&b, "\n## Claims: %s\n\n| claim | verdict | shown by | because |\n|---|---|---|---|\n", tally(r.Claims))
		for _, c := range r.Claims {
			fmt.Fprintf(&b, "| %s | **%s** | %s | %s |\n", cell(c.Says), c.Verdict.Text(), cell(c.Shows), cell(c.Because))
		}
	}
	drawings, err := Drawings(r)
	if err != nil {
		return err
	}
	for i, part := range e.Parts {
		writePagePart(&b, r, i)
		for _, d := range drawings {
			if d.Part == part.Name {
				fmt.Fprintf(&b, "\n![%s of %s](%s)\n", part.Figure.Y, part.Name, d.File)
			}
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

const conventions = `Played in virtual time by the service's own scheduler. Latency is completion minus arrival; percentiles are
interpolated linearly; throughput is requests over the time from the first arrival to the last completion; a GPU's busy
share is of the time to the last completion; padding is 1 - useful tokens / (batch size x longest request). An arrival
tries to be dispatched at once, and of idle engines the lowest-numbered one is taken. The same seeds stand behind every
cell, so that claims compare like with like.
`

func writePagePart(b *strings.Builder, r *experiment.Result, i int) {
	part := r.Experiment.Parts[i]
	fmt.Fprintf(b, "\n## %s\n\n", part.Title)
	if part.About != "" {
		fmt.Fprintf(b, "%s\n\n", strings.Join(wrap(part.About, 120), "\n"))
	}
	heads, rows := partRows(r, i)
	for k := range heads {
		if k >= len(part.Axes) {
			heads[k] = strings.ToLower(heads[k])
			heads[k] = strings.NewReplacer("gpu", "GPU", "p50", "P50", "p95", "P95", "p99", "P99").Replace(heads[k])
			continue
		}
		heads[k] = strings.ToLower(heads[k])
	}
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(heads, " | "), rule(len(part.Axes), len(heads)))
	for _, row := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
}

func rule(left, all int) string {
	return strings.Repeat("---|", left) + strings.Repeat("---:|", all-left)
}

// cell is a text that may stand in a table of a page.
func cell(text string) string {
	return strings.NewReplacer("\n", " ", "|", "\\|").Replace(strings.TrimSpace(text))
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
