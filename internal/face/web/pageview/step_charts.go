package pageview

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/kit/chart"
	"github.com/millrace/millrace/internal/rollout"
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
	p := plot{id: "step-time", whole: true, height: 240, unit: "s", flags: flags, title: "Step time by phase",
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
		{"mean", "a", func(b bucket) float64 {
			return b.mean(func(s *runhistory.Step) float64 { return s.StalenessMean })
		}},
		{"max", "b", func(b bucket) float64 {
			return b.max(func(s *runhistory.Step) float64 { return float64(s.StalenessMax) })
		}}}
	return w.draw(plot{id: "staleness", title: "Staleness of what was trained on", unit: "versions",
		says:   "Policy versions that the trainer was ahead of the oldest one that played a group; dashed, the run's bound.",
		guides: []chart.Guide{{At: float64(most)}}, lines: legends(all), parts: overSteps(buckets, all)})
}

func (w Window) zeroVariance(buckets []bucket) Panel {
	all := []line[bucket]{{"zero-variance groups", "f", func(b bucket) float64 {
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
	known := func(v float64) float64 {
		if v > 0 {
			return v
		}
		return math.NaN()
	}
	all := []line[bucket]{
		{"mean", "a", func(b bucket) float64 {
			return known(b.mean(func(s *runhistory.Step) float64 { return s.LengthMean }))
		}},
		{"longest", "b", func(b bucket) float64 {
			return known(b.max(func(s *runhistory.Step) float64 { return float64(s.LengthMax) }))
		}}}
	return w.draw(plot{id: "game-lengths", title: "Length of the games that were trained on", says: "In phases.",
		unit: "phases", lines: legends(all), parts: overSteps(buckets, all)})
}

// around is the stretch that a point of a chart is pointed at by.
func (w Window) around(moment float64, name string, values ...float64) stretch {
	half := w.seconds() / mostBuckets / 2
	return stretch{moment - half, moment + half, name, values}
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
			for _, v := range s.ByVersion {
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
	per := max(1, (len(all)+mostBuckets-1)/mostBuckets)
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
	p := plot{id: "reward", title: "Reward by policy version", interval: true, lines: []Legend{{"c", "mean reward"}},
		says: "Mean of the games that a version played, with the 95 % interval of the mean, at the time when the first " +
			"of them were trained on. Where all sides are trained, their rewards add up to the same in every game, and " +
			"the mean says little.", beside: []string{"low", "high", "games"}}
	for _, r := range rewards(buckets) {
		name := fmt.Sprintf("version %d", r.first)
		if r.last != r.first {
			name = fmt.Sprintf("versions %d to %d", r.first, r.last)
		}
		mean, half := r.reward.Value(), r.reward.Interval()
		p.parts = append(p.parts, w.around(r.at, name, mean, mean-half, mean+half, float64(r.reward.Count)))
	}
	return w.draw(p)
}

// The ends of names by which a trainer tells an evaluation's interval, beside the evaluation itself: both ends, or the
// standard error.
const (
	lowEnd   = "_low"
	highEnd  = "_high"
	errorEnd = "_stderr"
)

// mostEvaluationPanels is how many evaluations have a chart.
const mostEvaluationPanels = 6

// evaluations is a chart for each evaluation that the trainer tells, with its interval if it tells one; of very many
// points the latest of each part of the window.
func (w Window) evaluations(steps []runhistory.Step) []Panel {
	parts := map[string][]stretch{}
	var names []string
	for i := range steps {
		s := &steps[i]
		if s.At.Before(w.From) || s.At.After(w.To) {
			continue
		}
		for _, e := range s.Evaluations {
			if strings.HasSuffix(e.Name, lowEnd) || strings.HasSuffix(e.Name, highEnd) || strings.HasSuffix(e.Name, errorEnd) {
				continue
			}
			if parts[e.Name] == nil {
				names = append(names, e.Name)
			}
			low, high := evaluationInterval(s.Evaluations, e)
			parts[e.Name] = append(parts[e.Name], w.around(sec(s.At), fmt.Sprintf("version %d", s.Version), e.Value, low,
				high))
		}
	}
	slices.Sort(names)
	var panels []Panel
	for i, name := range names[:min(len(names), mostEvaluationPanels)] {
		p := plot{id: fmt.Sprintf("evaluation-%d", i), title: "Evaluation " + harmless(name), interval: true,
			says: "As the trainer tells it with its steps, by policy version. Its interval is drawn where the trainer " +
				"tells one.", lines: []Legend{{"d", harmless(name)}}, beside: []string{"low", "high"}}
		all := parts[name]
		every := (len(all) + mostBuckets - 1) / mostBuckets
		for k := (len(all) - 1) % every; k < len(all); k += every {
			p.parts = append(p.parts, all[k])
		}
		panels = append(panels, w.draw(p))
	}
	return panels
}

// evaluationInterval is the interval that the trainer tells; its ends are not numbers where it tells none.
func evaluationInterval(told []runhistory.Evaluation, of runhistory.Evaluation) (low, high float64) {
	value := func(end string) float64 {
		i := slices.IndexFunc(told, func(e runhistory.Evaluation) bool { return e.Name == of.Name+end })
		if i < 0 {
			return math.NaN()
		}
		return told[i].Value
	}
	low, high = value(lowEnd), value(highEnd)
	if wrong := value(errorEnd); math.IsNaN(low) || math.IsNaN(high) {
		low, high = of.Value-1.96*wrong, of.Value+1.96*wrong
	}
	return low, high
}
