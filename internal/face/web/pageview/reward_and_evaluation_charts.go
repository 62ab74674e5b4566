package pageview

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/rollout"
)

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
