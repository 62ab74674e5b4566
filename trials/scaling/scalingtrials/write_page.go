package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	trial "github.com/millrace/millrace/trials/scaling"
)

// The marks between which the page's tables stand.
const (
	tablesBegin = "<!-- trials: begin; written by make scaling-trials -->\n"
	tablesEnd   = "<!-- trials: end -->"
)

// writePage writes tables and figures.
func writePage(sets [2][]trial.Comparison, page, figure, sums string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), tablesBegin)
	_, after, ends := strings.Cut(rest, tablesEnd)
	if !begins || !ends {
		return fmt.Errorf("%s: the lines %q and %q are missing", page, strings.TrimSpace(tablesBegin), tablesEnd)
	}
	tables := sumTable(sets[1])
	if sums != "" {
		if err := writeSums(sets[1], sums); err != nil {
			return err
		}
		tables += fmt.Sprintf("\n![sums of total time and engine-hours of each policy](%s)\n", filepath.Base(sums))
	}
	tables += "\n" + resultTable(sets) + "\n" + kindTable(sets[1])
	if figure != "" {
		if err := writeFigure(sets[1], figure); err != nil {
			return err
		}
		tables += fmt.Sprintf("\n![total time and engine-hours of each workload](%s)\n", filepath.Base(figure))
	}
	return os.WriteFile(page, []byte(before+tablesBegin+"\n"+tables+"\n"+tablesEnd+after), 0o644)
}

// against adds the rows that compare starvation with another policy.
func against(row func(string, func(column) string), name string, other func(least int) policy) {
	ratio := func(what string, figure func(r trial.Ratios) string) {
		row(what, func(c column) string { return figure(trial.Against(c.all, starvation(c.least), other(c.least))) })
	}
	ratio("**starvation / "+name+"**: total time, mean", func(r trial.Ratios) string { return three(trial.Mean(r.Time)) })
	ratio("median, 95th percentile", func(r trial.Ratios) string {
		return three(trial.Quantile(r.Time, 0.5)) + ", " + three(trial.Quantile(r.Time, 0.95))
	})
	ratio("engine-hours, mean", func(r trial.Ratios) string { return three(trial.Mean(r.Hours)) })
	row("all workloads together: total time, engine-hours", func(c column) string {
		sec, hours := trial.Together(c.all, starvation(c.least), other(c.least))
		return three(sec) + ", " + three(hours)
	})
	ratio("at most 5 % slower", shareOf(func(t, _ float64) bool { return t <= 1.05 }))
	ratio("at most 85 % of the engine-hours", shareOf(func(_, h float64) bool { return h <= 0.85 }))
	ratio("both", shareOf(func(t, h float64) bool { return t <= 1.05 && h <= 0.85 }))
	ratio("faster, with fewer engine-hours", shareOf(func(t, h float64) bool { return t < 1 && h < 1 }))
	ratio("slower, with more engine-hours", shareOf(func(t, h float64) bool { return t > 1 && h > 1 }))
}

// courseRows adds the rows of what starvation did.
func courseRows(row func(string, func(column) string)) {
	course := func(name string, figure func(c trial.Course) string) {
		row(name, func(c column) string { return figure(trial.Courses(c.all, c.least)) })
	}
	course("**what starvation did**: purchases", func(c trial.Course) string { return fmt.Sprint(c.Purchases) })
	course("of these before step 0", func(c trial.Course) string { return fmt.Sprint(c.First) })
	course("without evidence (terms not capacity-bound; before step 0: slots not half full)",
		func(c trial.Course) string { return fmt.Sprint(c.Unfounded) })
	row("after step 0, in runs that one engine makes as fast as any fleet", needless)
	course("engines given back", func(c trial.Course) string { return fmt.Sprint(c.GivenBack) })
	course("purchases undone, engines bought back", func(c trial.Course) string {
		return fmt.Sprintf("%d, %d", c.Undone, c.Restored)
	})
	course("changes of one direction within a cold start", func(c trial.Course) string { return fmt.Sprint(c.Flaps) })
	course("shortest time between two changes, in cold starts",
		func(c trial.Course) string { return three(c.Shortest) })
}
