package pageview

import (
	"fmt"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/chart"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/web/runhistory"
)

// stacked is the order of the phases in a column, from below: what the trainer waits stands on top, so that the time
// that was added is what is seen.
var stacked = []rollout.Phase{rollout.PhaseTrain, rollout.PhaseRefLogprobs, rollout.PhaseLoad, rollout.PhasePublish,
	rollout.PhaseCheckpoint, rollout.PhaseOther, rollout.PhaseWait}

func phaseName(p rollout.Phase) string {
	switch p {
	case rollout.PhaseWait:
		return "waiting for the batch"
	case rollout.PhaseRefLogprobs:
		return "reference logprobs"
	}
	return string(p)
}

// stepTime is the steps' time by phases.
func (w Window) stepTime(buckets []bucket, flags []chart.Flag) Panel {
	p := Panel{ID: "step-time", Whole: true, Title: "Step time by phase", Says: "Each column is a step, or the mean of " +
		"several. " +
		"Marks above are what happened: publications, changes, engines, failures, and jumps that the diagnosis found.",
		Table: Table{Unit: "s", Columns: []string{"step", "slowest"}}}
	c := chart.Panel{Height: 240, Flags: flags}
	order := rollout.Phases()
	var places []int
	for _, phase := range stacked {
		i := slices.Index(order, phase)
		if !slices.ContainsFunc(buckets, func(b bucket) bool {
			return b.mean(func(s *runhistory.Step) float64 { return s.Phases[i] }) > 0.001*b.mean(stepSec)
		}) {
			continue
		}
		places = append(places, i)
		c.Layers = append(c.Layers, chart.Layer{Name: phaseName(phase), Class: string(phase)})
		p.Legend = append(p.Legend, Legend{string(phase), phaseName(phase)})
		p.Table.Columns = append(p.Table.Columns, phaseName(phase))
	}
	slowest := chart.PanelLine{Name: "slowest step", Class: "soft"}
	for k, b := range buckets {
		column := chart.Column{From: b.from, To: b.to}
		for _, i := range places {
			column.Values = append(column.Values, b.mean(func(s *runhistory.Step) float64 { return s.Phases[i] }))
		}
		most := b.max(stepSec)
		p.Table.add(b.name(), at(b.to), append([]float64{b.mean(stepSec), most}, column.Values...)...)
		column.Tip = p.Table.tip(k)
		c.Columns = append(c.Columns, column)
		slowest.Points = append(slowest.Points, chart.Point{X: (b.from + b.to) / 2, Y: most})
	}
	if slices.ContainsFunc(buckets, func(b bucket) bool { return len(b.steps) > 1 }) {
		c.Lines = append(c.Lines, slowest)
		p.Legend = append(p.Legend, Legend{"soft", "slowest step"})
	}
	return w.panel(p, c)
}

func stepSec(s *runhistory.Step) float64 { return s.Sec }

// series is one line of a chart over the steps.
type series struct {
	name, class string
	of          func(bucket) float64
}

// lines is a chart of lines over the steps.
func (w Window) lines(p Panel, unit string, buckets []bucket, guides []chart.Guide, all ...series) Panel {
	names, parts := make([]Legend, len(all)), make([]stretch, len(buckets))
	for i, s := range all {
		names[i] = Legend{s.class, s.name}
	}
	for k, b := range buckets {
		parts[k] = stretch{b.from, b.to, b.name(), make([]float64, len(all))}
		for i, s := range all {
			parts[k].values[i] = s.of(b)
		}
	}
	return w.overTime(p, unit, names, parts, chart.Panel{Guides: guides})
}

func (w Window) staleness(buckets []bucket, most int64) Panel {
	return w.lines(Panel{ID: "staleness", Title: "Staleness of what was trained on",
		Says: "Policy versions that the trainer was ahead of the oldest one that played a group; dashed, the run's bound."},
		"versions", buckets, []chart.Guide{{At: float64(most)}},
		series{"mean", "a", func(b bucket) float64 {
			return b.mean(func(s *runhistory.Step) float64 { return s.StalenessMean })
		}},
		series{"max", "b", func(b bucket) float64 {
			return b.max(func(s *runhistory.Step) float64 { return float64(s.StalenessMax) })
		}})
}

func (w Window) zeroVariance(buckets []bucket) Panel {
	p := Panel{ID: "zero-variance", Title: "Groups whose rewards were equal",
		Says:   "The share of each batch that says nothing to the trainer.",
		Legend: []Legend{{"f", "zero-variance groups"}}, Table: Table{Unit: "%", Columns: []string{"zero-variance groups"}}}
	c := chart.Panel{Layers: []chart.Layer{{Name: "zero-variance groups", Class: "f"}}}
	for k, b := range buckets {
		zero, groups := 0, 0
		for _, s := range b.steps {
			zero, groups = zero+s.ZeroVariance, groups+s.Groups
		}
		share := math.NaN()
		if groups > 0 {
			share = 100 * float64(zero) / float64(groups)
		}
		p.Table.add(b.name(), at(b.to), share)
		c.Columns = append(c.Columns, chart.Column{From: b.from, To: b.to, Values: []float64{share}, Tip: p.Table.tip(k)})
	}
	return w.panel(p, c)
}

func (w Window) gameLengths(buckets []bucket) Panel {
	known := func(of func(*runhistory.Step) float64, join func(bucket, func(*runhistory.Step) float64) float64,
	) func(bucket) float64 {
		return func(b bucket) float64 {
			if v := join(b, of); v > 0 {
				return v
			}
			return math.NaN()
		}
	}
	return w.lines(Panel{ID: "game-lengths", Title: "Length of the games that were trained on", Says: "In phases."},
		"phases", buckets, nil,
		series{"mean", "a", known(func(s *runhistory.Step) float64 { return s.LengthMean }, bucket.mean)},
		series{"longest", "b", known(func(s *runhistory.Step) float64 { return float64(s.LengthMax) }, bucket.max)})
}

// versionReward is the reward of the games that neighbouring versions played.
type versionReward struct {
	first, last rollout.PolicyVersion
	at          float64 // when games of the first were trained on first
	reward      runhistory.Mean
}

// rewards is the reward by version over all steps of the window, neighbouring versions as one where there are many.
func rewards(buckets []bucket) []versionReward {
	var all []versionReward
	for _, b := range buckets {
		for i := range b.steps {
			s := &b.steps[i]
			played := s.ByVersion
			if len(played) == 0 && s.Reward.Count > 0 {
				played = []runhistory.VersionMean{{Version: s.Version, Reward: s.Reward}}
			}
			for _, v := range played {
				k, found := slices.BinarySearchFunc(all, v.Version, func(r versionReward, v rollout.PolicyVersion) int {
					return int(r.first - v)
				})
				if !found {
					all = slices.Insert(all, k, versionReward{first: v.Version, last: v.Version, at: sec(s.At)})
				}
				all[k].reward = all[k].reward.Add(v.Reward)
			}
		}
	}
	per := (len(all) + mostBuckets - 1) / mostBuckets
	if per <= 1 {
		return all
	}
	var joined []versionReward
	for i, r := range all {
		if i%per == 0 {
			joined = append(joined, r)
			continue
		}
		last := &joined[len(joined)-1]
		last.last, last.reward = r.last, last.reward.Add(r.reward)
	}
	return joined
}

// rewardByVersion is the mean reward of each version's games with its interval, at the time when games of it were first
// trained on.
func (w Window) rewardByVersion(buckets []bucket) Panel {
	p := Panel{ID: "reward", Title: "Reward by policy version", Says: "Mean of the games that a version played, with " +
		"the 95 % interval of the mean, at the time when the first of them were trained on. Where all sides are " +
		"trained, their rewards add up to the same in every game, and the mean says little.",
		Legend: []Legend{{"c", "mean reward"}},
		Table:  Table{Columns: []string{"reward", "low", "high", "games"}}}
	line := chart.PanelLine{Name: "mean reward", Class: "c"}
	c := chart.Panel{}
	for k, r := range rewards(buckets) {
		name := fmt.Sprintf("version %d", r.first)
		if r.last != r.first {
			name = fmt.Sprintf("versions %d to %d", r.first, r.last)
		}
		mean, half := r.reward.Value(), r.reward.Interval()
		p.Table.add(name, at(r.at), mean, mean-half, mean+half, float64(r.reward.Count))
		line.Points = append(line.Points, chart.Point{X: r.at, Y: mean, Low: mean - half, High: mean + half})
		width := w.seconds() / mostBuckets / 2
		c.Columns = append(c.Columns, chart.Column{From: r.at - width, To: r.at + width, Tip: p.Table.tip(k)})
	}
	c.Lines = []chart.PanelLine{line}
	return w.panel(p, c)
}
