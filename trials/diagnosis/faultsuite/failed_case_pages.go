package faultsuite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/internal/diagnosis/reporttext"
)

// WritePages writes a page on each case that is not right in all of its runs into a folder, and removes those of cases
// that are.
func WritePages(folder string, outcomes []Outcome) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	for _, of := range byCase(outcomes) {
		name := filepath.Join(folder, of[0].Case.Name+".md")
		page := pageOf(of)
		if page == "" {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		if err := os.WriteFile(name, []byte(page), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// pageOf is what was injected and what was said, with the report of the first run that is not right.
func pageOf(of []*Outcome) string {
	var lines []string
	var first *Outcome
	for _, o := range of {
		wrong := o.WrongFixes()
		if o.Right() && len(wrong) == 0 {
			continue
		}
		if first == nil {
			first = o
		}
		lines = append(lines, fmt.Sprintf("- scale %d, seed %d: said %s (%v)", o.Scale, o.Seed, saidOf(o), o.Others))
		for _, a := range wrong {
			lines = append(lines, fmt.Sprintf("  - wrong advice: %s %s, %.0f s; played it takes %.0f s, without it %.0f s",
				a.Change, a.Outcome, a.SaidSec, a.TrueSec, a.NowSec))
		}
	}
	if first == nil {
		return ""
	}
	c := first.Case
	var report strings.Builder
	if first.Err == nil {
		if err := reporttext.WriteVerbose(&report, first.Report); err != nil {
			fmt.Fprintf(&report, "%v", err)
		}
	}
	const again = "Again: `go run ./trials/diagnosis/faultsuite/faultscore -only '^%s$'`; `-steps` prints the step " +
		"times, `-records DIR` writes the record. Even seeds have per-engine rows, odd ones not."
	return fmt.Sprintf("# %s\n\nInjected: %s. Wanted: %s.\n\n%s\n\n"+again+"\n\n```\n%s```\n", c.Name, c.Injected,
		wanted(c), strings.Join(lines, "\n"), c.Name, report.String())
}
