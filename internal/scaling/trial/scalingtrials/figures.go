package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/millrace/millrace/internal/chart"
	"github.com/millrace/millrace/internal/scaling/trial"
)

// writeFigure draws every workload as one dot for each policy.
func writeFigure(all []trial.Comparison, path string) error {
	c := chart.Chart{Title: "Total time and engine-hours, as shares of the best fixed fleet",
		Subtitle: fmt.Sprintf("%d held-out workloads; a dot is one workload under one policy", len(all)),
		X:        chart.Axis{Label: "engine-hours, share of the best fixed fleet's", Log: true},
		Y:        chart.Axis{Label: "total time, share of the best fixed fleet's", Log: true},
		Guides:   []chart.Guide{{At: 1.05, Label: "5 % slower"}, {At: 0.85, Vertical: true, Label: "85 %"}}}
	dots := func(name string, of policy, context bool) {
		r := trial.Against(all, of, best)
		s := chart.Series{Name: name, Mark: chart.Dots, Context: context}
		for i := range r.Time {
			s.Points = append(s.Points, chart.Point{X: r.Hours[i], Y: r.Time[i]})
		}
		c.Series = append(c.Series, s)
	}
	for _, target := range []int{trial.Targets[0], trial.Targets[len(trial.Targets)-1]} {
		dots(fmt.Sprintf("queue, target %d", target), queue(1, target), false)
	}
	dots("starvation", starvation(1), false)
	return writeChart(&c, path)
}

// writeSums draws all workloads together: a point for each policy.
func writeSums(all []trial.Comparison, path string) error {
	c := chart.Chart{Title: "All workloads together: total time and engine-hours",
		Subtitle: fmt.Sprintf("%d held-out workloads; further left and further down is better", len(all)),
		X:        chart.Axis{Label: "engine-hours, share of the best fixed fleets'"},
		Y:        chart.Axis{Label: "total time, share of the best fixed fleets'"},
		Guides:   []chart.Guide{{At: 1.05, Label: "5 % slower"}, {At: 0.85, Vertical: true, Label: "85 %"}}}
	point := func(label string, of policy) chart.Point {
		sec, hours := trial.Together(all, of, best)
		return chart.Point{X: hours, Y: sec, Label: label}
	}
	fixed := chart.Series{Name: "the same fixed fleet for all", Context: true}
	for _, engines := range []int{1, 2, 3, 4} {
		fixed.Points = append(fixed.Points, point(fmt.Sprint(engines), fleet(engines)))
	}
	c.Series = append(c.Series, fixed)
	for _, least := range trial.Leasts {
		of := chart.Series{Name: fmt.Sprintf("queue by target, min %d", least)}
		for _, target := range trial.Targets {
			of.Points = append(of.Points, point(fmt.Sprint(target), queue(least, target)))
		}
		c.Series = append(c.Series, of)
	}
	c.Series = append(c.Series,
		chart.Series{Name: "starvation, min 1 and 2", Mark: chart.Dots,
			Points: []chart.Point{point("min 1", starvation(1)), point("min 2", starvation(2))}},
		chart.Series{Name: "each run's best fleet and target", Mark: chart.Dots,
			Points: []chart.Point{point("fixed", best), point("target", bestQueue(1))}})
	return writeChart(&c, path)
}

func writeChart(c *chart.Chart, path string) error {
	var svg bytes.Buffer
	if err := c.WriteSVG(&svg); err != nil {
		return err
	}
	return os.WriteFile(path, svg.Bytes(), 0o644)
}
