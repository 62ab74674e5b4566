package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/internal/chart"
	"github.com/millrace/millrace/internal/scaling/trial"
	"github.com/millrace/millrace/internal/units"
)

// The marks between which the page's tables stand.
const (
	tablesBegin = "<!-- trials: begin; written by make scaling-trials -->\n"
	tablesEnd   = "<!-- trials: end -->"
)

// writePage writes tables and figure.
func writePage(sets [2][]trial.Comparison, page, figure string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), tablesBegin)
	_, after, ends := strings.Cut(rest, tablesEnd)
	if !begins || !ends {
		return fmt.Errorf("%s: the lines %q and %q are missing", page, strings.TrimSpace(tablesBegin), tablesEnd)
	}
	tables := resultTable(sets) + "\n" + kindTable(sets[1])
	if figure != "" {
		if err := writeFigure(sets[1], figure); err != nil {
			return err
		}
		tables += fmt.Sprintf("\n![total time and engine-hours of each policy](%s)\n", filepath.Base(figure))
	}
	return os.WriteFile(page, []byte(before+tablesBegin+"\n"+tables+"\n"+tablesEnd+after), 0o644)
}

func best(c *trial.Comparison) trial.Summary       { return c.Best }
func fastest(c *trial.Comparison) trial.Summary    { return c.Fastest }
func starvation(c *trial.Comparison) trial.Summary { return c.Starvation }

func queue(target int) func(*trial.Comparison) trial.Summary {
	return func(c *trial.Comparison) trial.Summary { return c.Queue[target] }
}

// resultTable has one line for each figure, and a column for each set.
func resultTable(sets [2][]trial.Comparison) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| | seeds %d to %d | held out: %d to %d |\n|---|---:|---:|\n", trial.FirstSeed,
		trial.FirstSeed+len(sets[0])-1, trial.FirstHeldOut, trial.FirstHeldOut+len(sets[1])-1)
	row := func(name string, figure func(all []trial.Comparison) string) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, figure(sets[0]), figure(sets[1]))
	}
	row("workloads", func(all []trial.Comparison) string { return fmt.Sprint(len(all)) })
	against := func(name string, other func(*trial.Comparison) trial.Summary) {
		ratio := func(what string, figure func(r trial.Ratios) string) {
			row(what, func(all []trial.Comparison) string { return figure(trial.Against(all, starvation, other)) })
		}
		ratio("**starvation / "+name+"**: total time, mean", func(r trial.Ratios) string { return three(trial.Mean(r.Time)) })
		ratio("median, 95th percentile", func(r trial.Ratios) string {
			return three(trial.Quantile(r.Time, 0.5)) + ", " + three(trial.Quantile(r.Time, 0.95))
		})
		ratio("engine-hours, mean", func(r trial.Ratios) string { return three(trial.Mean(r.Hours)) })
		row("all workloads together: total time, engine-hours", func(all []trial.Comparison) string {
			return together(all, other)
		})
		ratio("at most 5 % slower", shareOf(func(t, _ float64) bool { return t <= 1.05 }))
		ratio("at most 85 % of the engine-hours", shareOf(func(_, h float64) bool { return h <= 0.85 }))
		ratio("both", shareOf(func(t, h float64) bool { return t <= 1.05 && h <= 0.85 }))
		ratio("faster, with fewer engine-hours", shareOf(func(t, h float64) bool { return t < 1 && h < 1 }))
		ratio("slower, with more engine-hours", shareOf(func(t, h float64) bool { return t > 1 && h > 1 }))
	}
	against("best fixed fleet", best)
	against("largest fixed fleet", fastest)
	for _, target := range trial.Targets {
		against(fmt.Sprintf("queue, target %d", target), queue(target))
	}
	course := func(name string, figure func(c trial.Course) string) {
		row(name, func(all []trial.Comparison) string { return figure(trial.Courses(all)) })
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
	return b.String()
}

// together is the sums of starvation over all workloads, as shares of another policy's.
func together(all []trial.Comparison, other func(*trial.Comparison) trial.Summary) string {
	var sec, hours, otherSec, otherHours float64
	for i := range all {
		s, o := all[i].Starvation, other(&all[i])
		sec, hours = sec+s.Sec, hours+s.Hours
		otherSec, otherHours = otherSec+o.Sec, otherHours+o.Hours
	}
	return three(sec/otherSec) + ", " + three(hours/otherHours)
}

// needless is the purchases after the first step in runs that need one engine, and how many such runs there are.
func needless(all []trial.Comparison) string {
	purchases, runs := 0, 0
	for i := range all {
		if c := &all[i]; c.Best.Engines == 1 {
			runs++
			purchases += c.Course.Purchases - c.Course.First
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
	b.WriteString("Held-out runs by kind, as shares of the best fixed fleet:\n\n")
	b.WriteString("| runs | number | engines, best fixed fleet | starvation, mean | total time | engine-hours |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|\n")
	line := func(name string, holds func(*trial.Comparison) bool) {
		var some []trial.Comparison
		var fixed, scaled []float64
		for i := range all {
			if c := &all[i]; holds(c) {
				some = append(some, *c)
				fixed, scaled = append(fixed, c.Best.MeanEngines), append(scaled, c.Starvation.MeanEngines)
			}
		}
		r := trial.Against(some, starvation, best)
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
			return c.Best.Engines >= size.from && c.Best.Engines <= size.to
		})
	}
	return b.String()
}

// writeFigure draws every workload as one dot for each policy.
func writeFigure(all []trial.Comparison, path string) error {
	c := chart.Chart{Title: "Total time and engine-hours, as shares of the best fixed fleet",
		Subtitle: fmt.Sprintf("%d held-out workloads; a dot is one workload under one policy", len(all)),
		X:        chart.Axis{Label: "engine-hours, share of the best fixed fleet's", Log: true},
		Y:        chart.Axis{Label: "total time, share of the best fixed fleet's", Log: true},
		Guides:   []chart.Guide{{At: 1.05, Label: "5 % slower"}, {At: 0.85, Vertical: true, Label: "85 %"}}}
	dots := func(name string, policy func(*trial.Comparison) trial.Summary, context bool) {
		r := trial.Against(all, policy, best)
		s := chart.Series{Name: name, Mark: chart.Dots, Context: context}
		for i := range r.Time {
			s.Points = append(s.Points, chart.Point{X: r.Hours[i], Y: r.Time[i]})
		}
		c.Series = append(c.Series, s)
	}
	for _, target := range trial.Targets {
		dots(fmt.Sprintf("queue, target %d", target), queue(target), false)
	}
	dots("starvation", starvation, false)
	var svg bytes.Buffer
	if err := c.WriteSVG(&svg); err != nil {
		return err
	}
	return os.WriteFile(path, svg.Bytes(), 0o644)
}
