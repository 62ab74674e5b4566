package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/millrace/millrace/internal/kit/chart"
	"github.com/millrace/millrace/trials/figure"
	"github.com/millrace/millrace/trials/scaling"
)

// writeFigure draws every workload as one dot for each policy.
func writeFigure(all []trial.Comparison, path string) error {
	f := figure.Figure{Title: "Total time and engine-hours, as shares of the best fixed fleet",
		Subtitle: fmt.Sprintf("%d held-out workloads; a dot is one workload under one policy", len(all)),
		XLabel:   "engine-hours, share of the best fixed fleet's", YLabel: "total time, share of the best fixed fleet's"}
	dots := func(name string, of policy) {
		r := trial.Against(all, of, best)
		line := chart.PanelLine{Name: name, Dots: true}
		for i := range r.Time {
			line.Points = append(line.Points, chart.Point{X: r.Hours[i], Y: r.Time[i]})
		}
		f.Lines = append(f.Lines, line)
	}
	for _, target := range []int{trial.Targets[0], trial.Targets[len(trial.Targets)-1]} {
		dots(fmt.Sprintf("queue, target %d", target), queue(1, target))
	}
	dots("starvation", starvation(1))
	return writeShares(f, path)
}

// writeSums draws all workloads together: a point for each policy.
func writeSums(all []trial.Comparison, path string) error {
	f := figure.Figure{Title: "All workloads together: total time and engine-hours",
		Subtitle: fmt.Sprintf("%d held-out workloads; further left and further down is better", len(all)),
		XLabel:   "engine-hours, share of the best fixed fleets'", YLabel: "total time, share of the best fixed fleets'"}
	point := func(label string, of policy) chart.Point {
		sec, hours := trial.Together(all, of, best)
		return chart.Point{X: hours, Y: sec, Label: label}
	}
	fixed := chart.PanelLine{Name: "the same fixed fleet for all", Class: "soft"}
	for _, engines := range []int{1, 2, 3, 4} {
		fixed.Points = append(fixed.Points, point(fmt.Sprint(engines), fleet(engines)))
	}
	f.Lines = append(f.Lines, fixed)
	for _, least := range trial.Leasts {
		of := chart.PanelLine{Name: fmt.Sprintf("queue by target, min %d", least)}
		for _, target := range trial.Targets {
			of.Points = append(of.Points, point(fmt.Sprint(target), queue(least, target)))
		}
		f.Lines = append(f.Lines, of)
	}
	f.Lines = append(f.Lines,
		chart.PanelLine{Name: "starvation, min 1 and 2", Dots: true,
			Points: []chart.Point{point("min 1", starvation(1)), point("min 2", starvation(2))}},
		chart.PanelLine{Name: "each run's best fleet and target", Dots: true,
			Points: []chart.Point{point("fixed", best), point("target", bestQueue(1))}})
	return writeShares(f, path)
}

// writeShares draws shares of the best fixed fleet, with what counts as as fast and as cheaper.
func writeShares(f figure.Figure, path string) error {
	f.Guides = []chart.Guide{{At: 1.05, Label: "5 % slower"}}
	f.Flags = []chart.Flag{{At: 0.85, Class: "soft", Label: "85 %"}}
	for _, line := range f.Lines {
		for _, p := range line.Points {
			f.To = max(f.To, p.X)
		}
	}
	f.Ticks = chart.NumberTicks(0, f.To, 10, false)
	var svg bytes.Buffer
	if err := figure.Write(&svg, f.Title, f); err != nil {
		return err
	}
	return os.WriteFile(path, svg.Bytes(), 0o644)
}
