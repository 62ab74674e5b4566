package pageview

import (
	"math"
	"slices"

	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/kit/chart"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// stacked is the order of the phases in a column, from below: what the trainer waits stands on top, so that the time
// that was added is what is seen.
var stacked = []steprecord.Phase{steprecord.PhaseTrain, steprecord.PhaseRefLogprobs, steprecord.PhaseLoad,
	steprecord.PhasePublish,
	steprecord.PhaseCheckpoint, steprecord.PhaseOther, steprecord.PhaseWait}

func phaseName(p steprecord.Phase) string {
	switch p {
	case steprecord.PhaseWait:
		return "waiting for the batch"
	case steprecord.PhaseRefLogprobs:
		return "reference logprobs"
	}
	return string(p)
}

func stepSec(s *runhistory.Step) float64 { return s.Sec }

// overSteps is the parts of a chart with a value of each line for each bucket.
func overSteps(buckets []bucket, all []line[bucket]) []stretch {
	parts := make([]stretch, len(buckets))
	for k, b := range buckets {
		parts[k] = stretch{b.from, b.to, b.name(), values(all, b)}
	}
	return parts
}

// stepTime is the steps' time by phases.
func (w Window) stepTime(buckets []bucket, flags []chart.Flag) Panel {
	var all []line[bucket]
	for _, phase := range stacked {
		i := slices.Index(steprecord.Phases(), phase)
		of := func(b bucket) float64 { return b.mean(func(s *runhistory.Step) float64 { return s.Phases[i] }) }
		if slices.ContainsFunc(buckets, func(b bucket) bool { return of(b) > 0.001*b.mean(stepSec) }) {
			all = append(all, line[bucket]{phaseName(phase), string(phase), of})
		}
	}
	p := plot{id: "step-time", whole: true, cut: true, height: 240, unit: "s", flags: flags, title: "Step time by phase",
		says: "Each column is a step, or the mean of several. Marks above are what happened: publications, changes, " +
			"engines, failures, and jumps that the diagnosis found.", layers: legends(all), beside: []string{"step"}}
	if slices.ContainsFunc(buckets, func(b bucket) bool { return len(b.steps) > 1 }) {
		slowest := line[bucket]{"slowest step", "soft", func(b bucket) float64 { return b.max(stepSec) }}
		all, p.lines = append(all, slowest), legends([]line[bucket]{slowest})
	}
	p.parts = overSteps(buckets, append(all, line[bucket]{of: func(b bucket) float64 { return b.mean(stepSec) }}))
	return w.draw(p)
}

func (w Window) staleness(buckets []bucket, most int64) Panel {
	all := []line[bucket]{
		{"mean", "value", func(b bucket) float64 {
			return b.mean(func(s *runhistory.Step) float64 { return s.StalenessMean })
		}},
		{"max", "other", func(b bucket) float64 {
			return b.max(func(s *runhistory.Step) float64 { return float64(s.StalenessMax) })
		}}}
	return w.draw(plot{id: "staleness", title: "Staleness of what was trained on", unit: "versions",
		says:   "Policy versions that the trainer was ahead of the oldest one that played a group; dashed, the run's bound.",
		guides: []chart.Guide{{At: float64(most)}}, lines: legends(all), parts: overSteps(buckets, all)})
}

func (w Window) zeroVariance(buckets []bucket) Panel {
	all := []line[bucket]{{"zero-variance groups", "other", func(b bucket) float64 {
		zero, groups := 0, 0
		for _, s := range b.steps {
			zero, groups = zero+s.ZeroVariance, groups+s.Groups
		}
		if groups == 0 {
			return math.NaN()
		}
		return 100 * float64(zero) / float64(groups)
	}}}
	return w.draw(plot{id: "zero-variance", title: "Groups whose rewards were equal", unit: "%",
		says: "The share of each batch that says nothing to the trainer.", layers: legends(all),
		parts: overSteps(buckets, all)})
}

func (w Window) gameLengths(buckets []bucket) Panel {
	played := func(v float64) float64 {
		if v > 0 {
			return v
		}
		return math.NaN()
	}
	all := []line[bucket]{
		{"mean", "value", func(b bucket) float64 {
			return played(b.mean(func(s *runhistory.Step) float64 { return s.LengthMean }))
		}},
		{"longest", "other", func(b bucket) float64 {
			return played(b.max(func(s *runhistory.Step) float64 { return float64(s.LengthMax) }))
		}}}
	return w.draw(plot{id: "game-lengths", cut: true, title: "Length of the games that were trained on",
		says: "In phases.", unit: "phases", lines: legends(all), parts: overSteps(buckets, all)})
}

// around is the stretch that a point of a chart is pointed at by.
func (w Window) around(moment float64, name string, values ...float64) stretch {
	half := w.seconds() / mostBuckets / 2
	return stretch{moment - half, moment + half, name, values}
}
