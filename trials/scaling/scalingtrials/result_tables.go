package main

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/kit/units"
	trial "github.com/millrace/millrace/trials/scaling"
)

// policy is what became of a workload under one policy.
type policy = func(*trial.Comparison) trial.Summary

func best(c *trial.Comparison) trial.Summary { return c.Best() }

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
