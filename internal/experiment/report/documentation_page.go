package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/millrace/millrace/internal/experiment"
)

// PageHead is what stands before the sections.
const PageHead = `# Experiments

This page is generated: ` + "`make experiments`" + ` runs every experiment of config/experiments again and writes it.
Each takes claims, most of them from notes that this project grew out of, plays their setting in virtual time through
the service's own scheduler, and says of each claim whether it holds, does not hold, or cannot be decided, with the
figures that show it.
` + "`millrace experiment run NAME`" + ` prints the same; ` + "`millrace experiment run FILE`" + ` plays a file of your own.

Conventions: latency is completion minus arrival; percentiles are interpolated linearly; throughput is requests over the
time from the first arrival to the last completion; a GPU's busy share is of the time to the last completion; padding is
1 - useful tokens / (batch size x longest request). An arrival tries to be dispatched at once, and of idle engines the
lowest-numbered one is taken. A cell in which chance plays is played with several seeds, and the same seeds stand behind
every cell, so that claims compare like with like.
`

// marks around a section, so that one can be written again alone.
func beginOf(name string) string { return "\n<!-- experiment " + name + " -->\n" }

// WriteSection writes the section of an experiment with its mark.
func WriteSection(w io.Writer, r *experiment.Result, figures string) error {
	if _, err := io.WriteString(w, beginOf(r.Name)); err != nil {
		return err
	}
	return writeResult(w, r, figures)
}

// SectionOf is the section of an experiment in a page, with its mark; false: the page has none.
func SectionOf(page, name string) (string, bool) {
	begin := beginOf(name)
	_, after, ok := strings.Cut(page, begin)
	if !ok {
		return "", false
	}
	section, _, _ := strings.Cut(after, "\n<!-- experiment ")
	return begin + section, true
}

// writeResult writes what stands in a section. Figures is the folder of its drawings, as
// the page names it.
func writeResult(w io.Writer, r *experiment.Result, figures string) error {
	var b strings.Builder
	e := r.Experiment
	fmt.Fprintf(&b, "## %s: %s\n\n", e.Name, e.Title)
	if e.Source != "" {
		fmt.Fprintf(&b, "Claims from %s. ", e.Source)
	}
	fmt.Fprintf(&b, "Again: `millrace experiment run %s`.\n", e.Name)
	if e.About != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.Join(wrap(e.About, 120), "\n"))
	}
	if note := seedsNote(r); note != "" {
		fmt.Fprintf(&b, "\n%s.\n", note)
	}
	if len(r.Claims) > 0 {
		fmt.Fprintf(&b, "\n### Claims: %s\n\n| claim | verdict | shown by | because |\n|---|---|---|---|\n", tally(r.Claims))
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
				fmt.Fprintf(&b, "\n![%s of %s](%s/%s)\n", part.Figure.Y, part.Name, figures, d.File)
			}
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

func writePagePart(b *strings.Builder, r *experiment.Result, i int) {
	part := r.Experiment.Parts[i]
	fmt.Fprintf(b, "\n### %s\n\n", part.Title)
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
