package pageview

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/diagnosis/runcurve"
	"github.com/millrace/millrace/internal/face/web/runhistory"
)

// reward is the run's curve by policy version, each point at the time when games of the version were first trained on.
func (w Window) reward(steps []runhistory.Step) Panel {
	p := plot{id: "reward", title: "Reward by policy version", whole: true, interval: true,
		lines: []Legend{{"value", "mean reward"}}, says: "Mean of the games that a version played, with its 95 % interval: " +
			"groups count as independent, games of one group do not. Dropped are the groups that left while the trainer had " +
			"the version; they are in no mean. Where all sides are trained, their rewards add up to the same in every game, " +
			"and the mean says little.",
		beside: []string{"low", "high", "spread within groups", "games", "groups", "equal rewards, %",
			"tokens a turn", "invalid answers, %", "cut answers, %", "truncated games, %", "game length", "groups dropped",
			"games cancelled or given up"}}
	rows := make([]runcurve.Step, len(steps))
	for i := range steps {
		rows[i] = steps[i].Curve
	}
	for _, r := range runcurve.Of("", rows, runcurve.Asked{By: runcurve.ByVersion, Most: mostBuckets, From: w.From,
		To: w.To}).Points {
		name := fmt.Sprintf("version %d", r.First)
		if r.Last != r.First {
			name = fmt.Sprintf("versions %d to %d", r.First, r.Last)
		}
		mean, half := math.NaN(), 0.0
		if r.Reward != nil {
			mean, half = r.Reward.Mean, max(0, r.Reward.Half)
		}
		p.parts = append(p.parts, w.around(sec(r.From), name, mean, mean-half, mean+half, known(r.Spread, 1),
			float64(r.Games), float64(r.Groups), known(r.ZeroVariance, 100), known(r.TokensPerTurn, 1), known(r.Invalid, 100),
			known(r.Cut, 100), known(r.Truncated, 100), known(r.Length, 1), float64(r.DroppedGroups()),
			float64(r.Cancelled+r.Failed)))
	}
	return w.draw(p)
}

// known is a figure in a unit that is so many times smaller; not a number where it is not known.
func known(v *float64, times float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v * times
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
				"tells one.", lines: []Legend{{"value", harmless(name)}}, beside: []string{"low", "high"}}
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
