package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/trials/scaling"
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

// policy is what became of a workload under one policy.
type policy = func(*trial.Comparison) trial.Summary

func best(c *trial.Comparison) trial.Summary    { return c.Best() }
func fastest(c *trial.Comparison) trial.Summary { return c.Fastest() }

func starvation(least int) policy {
	return func(c *trial.Comparison) trial.Summary { return *c.From[least].Starvation }
}

func queue(least, target int) policy {
	return func(c *trial.Comparison) trial.Summary { return c.From[least].Queue[target] }
}

func bestQueue(least int) policy {
	return func(c *trial.Comparison) trial.Summary { s := c.From[least]; return s.BestQueue() }
}

// column is starvation with a least number of engines, in some workloads.
type column struct {
	title string
	all   []trial.Comparison
	least int
}

// resultTable has one line for each figure, and a column for each set.
func resultTable(sets [2][]trial.Comparison) string {
	first := func(i int) string {
		if len(sets[i]) == 0 {
			return "none"
		}
		return fmt.Sprintf("%d to %d", sets[i][0].Seed, sets[i][len(sets[i])-1].Seed)
	}
	columns := []column{{"seeds " + first(0) + ", min 1", sets[0], 1},
		{"held out, " + first(1) + ", min 1", sets[1], 1}, {"the same, min 2", sets[1], 2}}
	var b strings.Builder
	row := func(name string, figure func(c column) string) {
		fmt.Fprintf(&b, "| %s |", name)
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", figure(c))
		}
		b.WriteString("\n")
	}
	row("", func(c column) string { return c.title })
	b.WriteString("|---|---:|---:|---:|\n")
	row("workloads", func(c column) string { return fmt.Sprint(len(c.all)) })
	against(row, "best fixed fleet", func(int) policy { return best })
	row("of what it takes longer together: until the first step is done", late)
	against(row, "largest fixed fleet", func(int) policy { return fastest })
	for _, target := range []int{trial.Targets[0], trial.Targets[len(trial.Targets)-1]} {
		name := fmt.Sprintf("queue, target %d, same min", target)
		against(row, name, func(least int) policy { return queue(least, target) })
	}
	courseRows(row)
	return b.String()
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

// late is how much of what starvation takes longer than the best fixed fleet is before the first step is done.
func late(c column) string {
	first, whole := 0.0, 0.0
	for i := range c.all {
		s, f := starvation(c.least)(&c.all[i]), best(&c.all[i])
		first, whole = first+s.FirstSec-f.FirstSec, whole+s.Sec-f.Sec
	}
	return units.Percent(first / whole)
}

// needless is the purchases after the first step in runs that need one engine, and how many such runs there are.
func needless(of column) string {
	purchases, runs := 0, 0
	for i := range of.all {
		if c := &of.all[i]; c.Best().Engines == 1 {
			runs++
			purchases += c.From[of.least].Course.Purchases - c.From[of.least].Course.First
		}
	}
	return fmt.Sprintf("%d in %d runs", purchases, runs)
}

func shareOf(holds func(time, hours float64) bool) func(trial.Ratios) string {
	return func(r trial.Ratios) string { return units.Percent(r.Share(holds)) }
}

func three(v float64) string { return fmt.Sprintf("%.3f", v) }

// kindTable compares with the best fixed fleet by kinds of runs.
func kindTable(all []trial.Comparison) string {
	var b strings.Builder
	b.WriteString("Held-out runs by kind, min 1, as shares of the best fixed fleet:\n\n")
	b.WriteString("| runs | number | engines, best fixed fleet | starvation, mean | total time | engine-hours |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|\n")
	line := func(name string, holds func(*trial.Comparison) bool) {
		var some []trial.Comparison
		var fixed, scaled []float64
		for i := range all {
			if c := &all[i]; holds(c) {
				some = append(some, *c)
				fixed, scaled = append(fixed, c.Best().MeanEngines), append(scaled, starvation(1)(c).MeanEngines)
			}
		}
		r := trial.Against(some, starvation(1), best)
		fmt.Fprintf(&b, "| %s | %d | %.2f | %.2f | %.3f | %.3f |\n", name, len(some), trial.Mean(fixed),
			trial.Mean(scaled), trial.Mean(r.Time), trial.Mean(r.Hours))
	}
	for _, drift := range []trial.Drift{trial.Steady, trial.Grows, trial.Shrinks, trial.Jumps, trial.Waves} {
		line("games: "+string(drift), func(c *trial.Comparison) bool { return !c.Latency && c.Drift == drift })
	}
	line("games that wait for their environment", func(c *trial.Comparison) bool { return c.Latency })
	for _, size := range []struct {
		name     string
		from, to int
	}{{"best fixed fleet: 1 engine", 1, 1}, {"2 engines", 2, 2}, {"3 or 4", 3, 4}, {"5 and more", 5, trial.Most}} {
		line(size.name, func(c *trial.Comparison) bool {
			n := c.Best().Engines
			return n >= size.from && n <= size.to
		})
	}
	return b.String()
}
