package faultsuite

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/units"
)

// Part is the outcomes of one source of runs.
type Part struct {
	Name     string
	Outcomes []Outcome
}

// WriteTables writes the score and the confusion table of all parts into a file.
func WriteTables(file string, parts []Part) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	return os.WriteFile(file, []byte("# Diagnosis on runs with known faults\n"+Tables(parts)), 0o600)
}

// Tables is the score and the confusion table in Markdown.
func Tables(parts []Part) string {
	var b strings.Builder
	b.WriteString("\n| runs | with a fault | right cause first | named | missed | healthy | false alarms | what-ifs | " +
		"wrong advice | off by: median | nine of ten | in the range |\n|---|" + strings.Repeat("---:|", 11) + "\n")
	for _, p := range parts {
		s := ScoreOf(p.Outcomes)
		half, most, inside := "", "", ""
		if n := len(s.Errors); n > 0 {
			half, most, inside = units.Percent(s.Errors[n/2]), units.Percent(s.Errors[n*9/10]), share(s.Inside, n)
		}
		fmt.Fprintf(&b, "| %s | %d | %d (%s) | %d | %d | %d | %d | %d | %d | %s | %s | %s |\n", p.Name, s.Faults, s.Right,
			share(s.Right, s.Faults), s.Named, s.Missed, s.Healthy, s.FalseAlarms, s.Advice, s.WrongFixes, half, most,
			inside)
	}
	b.WriteString("\n| injected | runs | right first | said first instead |\n|---|---:|---:|---|\n")
	for _, row := range confusions(parts) {
		fmt.Fprintf(&b, "| %s | %d | %d | %s |\n", row.injected, row.runs, row.right, counted(row.instead))
	}
	b.WriteString("\n")
	return b.String()
}

// confusion is what was said of all runs with one cause.
type confusion struct {
	injected    string
	runs, right int
	instead     map[string]int
}

func confusions(parts []Part) []*confusion {
	rows := map[string]*confusion{}
	for _, p := range parts {
		for i := range p.Outcomes {
			o := &p.Outcomes[i]
			name := "nothing"
			if !o.Case.Healthy() {
				name = "`" + string(o.Case.Want[0]) + "`"
			}
			row := rows[name]
			if row == nil {
				row = &confusion{injected: name, instead: map[string]int{}}
				rows[name] = row
			}
			row.runs++
			if o.Right() {
				row.right++
				continue
			}
			row.instead[saidOf(o)]++
		}
	}
	sorted := make([]*confusion, 0, len(rows))
	for _, row := range rows {
		sorted = append(sorted, row)
	}
	slices.SortFunc(sorted, func(a, b *confusion) int {
		return cmp.Or(cmp.Compare(b.runs, a.runs), strings.Compare(a.injected, b.injected))
	})
	return sorted
}
