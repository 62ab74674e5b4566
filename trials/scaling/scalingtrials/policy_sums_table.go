package main

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/trials/scaling"
)

func fleet(engines int) policy {
	return func(c *trial.Comparison) trial.Summary { return c.Fixed[engines] }
}

// sumTable compares every policy with starvation: all workloads together, and how many of them starvation wins, and
// loses, on both axes.
func sumTable(all []trial.Comparison) string {
	var b strings.Builder
	fmt.Fprintf(&b, `All %d held-out workloads together, as shares of the best fixed fleets'. Starvation **wins** a run
if it uses fewer engine-hours and is faster (strictly), or is at most so much slower; it **loses** one if the other uses
fewer engine-hours and is at most 5 %% slower. A policy is **worse in sum** if starvation needs less of both. Policies
are compared with starvation of the same min, fixed fleets with that of 1.

`, len(all))
	b.WriteString("| policy | total time | engine-hours | starvation wins strictly | at 1 % | at 5 % | loses at 5 % " +
		"| worse in sum |\n|---|---:|---:|---:|---:|---:|---:|---|\n")
	row := func(name string, of, with policy) {
		sec, hours := trial.Together(all, of, best)
		fmt.Fprintf(&b, "| %s | %s | %s |", name, three(sec), three(hours))
		if with == nil {
			b.WriteString(" | | | | |\n")
			return
		}
		ours := trial.Against(all, with, of)
		for _, slower := range []float64{0, 0.01, 0.05} {
			wins := func(t, h float64) bool { return h < 1 && (t < 1 || t <= 1+slower && slower > 0) }
			fmt.Fprintf(&b, " %s |", units.Percent(ours.Share(wins)))
		}
		theirs := trial.Against(all, of, with)
		loses := func(t, h float64) bool { return h < 1 && t <= 1.05 }
		ourSec, ourHours := trial.Together(all, with, best)
		worse := "no"
		if ourSec < sec && ourHours < hours {
			worse = "yes"
		}
		fmt.Fprintf(&b, " %s | %s |\n", units.Percent(theirs.Share(loses)), worse)
	}
	for _, least := range trial.Leasts {
		ours := starvation(least)
		row(fmt.Sprintf("**starvation, min %d**", least), ours, nil)
		for _, target := range trial.Targets {
			row(fmt.Sprintf("queue, min %d, target %d", least, target), queue(least, target), ours)
		}
		row(fmt.Sprintf("queue, min %d, each run's best target", least), bestQueue(least), ours)
	}
	for _, engines := range trial.Fleets {
		row(fmt.Sprintf("fixed fleet of %d", engines), fleet(engines), starvation(1))
	}
	row("each run's best fixed fleet", best, starvation(1))
	return b.String()
}
