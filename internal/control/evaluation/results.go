package evaluation

import (
	"cmp"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Result is what an evaluation tells.
type Result struct {
	Run     rollout.RunName       `json:"run" doc:"The evaluation, itself a run"`
	State   runstatus.RunState    `json:"state"`
	Reason  string                `json:"reason,omitempty"`
	Version rollout.PolicyVersion `json:"version"`
	Against string                `json:"against,omitempty"`
	Seat    string                `json:"seat,omitempty" doc:"Which agent the version played; none: those that learn"`
	// Path and Opponents are adapters that trainers leave on disk until the evaluation is over.
	Path      string   `json:"path,omitempty" doc:"The version's adapter; none: it is the base model"`
	Opponents []string `json:"opponent_paths,omitempty" doc:"Adapters that play the others"`

	Games int            `json:"games" doc:"In completed steps, each once"`
	Asked int            `json:"games_asked"`
	Score *stat.Interval `json:"score,omitempty" doc:"Mean reward; with 95 % confidence, over all looks where it may stop early"`
	// Kept is whether the score is among the run's evaluate.keep best ones: trainers leave its adapter on disk.
	Kept bool `json:"kept,omitempty"`

	// Before is the newest version before of which there is such an evaluation with the same starts, and Difference this
	// one's reward less that one's.
	Before     *rollout.PolicyVersion `json:"before,omitempty" doc:"The version that it is compared with"`
	Pairs      int                    `json:"pairs,omitempty" doc:"Starts that both have played"`
	Difference *stat.Interval         `json:"difference,omitempty" doc:"Mean over the starts; one that excludes 0 is a test with 5 % error"`
}

// Played is an evaluation with the records of its steps.
type Played struct {
	Status runstatus.RunStatus
	Steps  []steprecord.StepRecord
}

// Results puts evaluations of one run together: by opponent and seat, then by version. The best keep versions are
// marked.
func Results(all []Played, keep int) []Result {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Played) int {
		x, y := &a.Status.Spec, &b.Status.Spec
		return cmp.Or(cmp.Compare(x.Evaluation.Against, y.Evaluation.Against),
			cmp.Compare(x.Evaluation.Seat, y.Evaluation.Seat),
			cmp.Compare(string(x.Environment.Options), string(y.Environment.Options)),
			cmp.Compare(x.Evaluation.Version, y.Evaluation.Version), cmp.Compare(x.Name, y.Name))
	})
	results := []Result{}
	for i, p := range all {
		s := &p.Status.Spec
		r := Result{Run: s.Name.Plain(), State: p.Status.State, Reason: p.Status.Reason, Version: s.Evaluation.Version,
			Against: s.Evaluation.Against, Seat: s.Evaluation.Seat, Asked: s.Steps * s.Buffer.GroupsPerStep}
		r.Path = s.Adapters.Initial
		for _, policy := range s.Policies {
			if policy.Path != "" {
				r.Opponents = append(r.Opponents, policy.Path)
			}
		}
		reward := Reward(p.Steps)
		if r.Games = reward.N; r.Games > 0 {
			score := reward.Interval(Confidence(s))
			r.Score = &score
		}
		for k := i - 1; k >= 0 && r.Before == nil; k-- {
			if comparable(&all[k].Status.Spec, s) {
				r.compare(&all[k], &p)
			}
		}
		results = append(results, r)
	}
	ranking := Ranking(results, "", "")
	for _, best := range ranking[:min(keep, len(ranking))] {
		at := slices.IndexFunc(results, func(r Result) bool { return r.Run == best.Run })
		results[at].Kept = true
	}
	return results
}

// Ranking is the finished evaluations of one opponent and seat, by their scores, the highest first; of equal ones the
// earlier version's. Without an opponent or a seat it is that which most versions have met.
func Ranking(all []Result, against, seat string) []Result {
	type question struct{ against, seat string }
	finished := map[question][]Result{}
	var most []Result
	for _, r := range all {
		if r.State != runstatus.RunCompleted || r.Score == nil ||
			against != "" && r.Against != against || seat != "" && r.Seat != strings.ToUpper(seat) {
			continue
		}
		q := question{r.Against, r.Seat}
		finished[q] = append(finished[q], r)
		if len(finished[q]) > len(most) {
			most = finished[q]
		}
	}
	slices.SortStableFunc(most, func(a, b Result) int { return cmp.Compare(b.Score.Mean, a.Score.Mean) })
	return most
}

// NotToldFrom is the versions of a ranking whose intervals meet that of the first.
func NotToldFrom(ranking []Result) (versions []rollout.PolicyVersion) {
	for _, r := range ranking[1:] {
		if best := ranking[0].Score; r.Score.Mean+r.Score.Half >= best.Mean-best.Half {
			versions = append(versions, r.Version)
		}
	}
	return versions
}

// Reward is the mean reward of the games of an evaluation's steps.
func Reward(steps []steprecord.StepRecord) (reward stat.GroupedMean) {
	for i := range steps {
		reward = reward.Add(steps[i].Service.Reward())
	}
	return reward
}

// Confidence is with which confidence to make the interval of an evaluation's mean, so that it holds with 95 %: at all
// looks at which it may stop early.
func Confidence(s *runspec.Spec) float64 {
	if s.Evaluation.HalfWidth > 0 {
		return stat.RepeatedConfidence(stat.MostLooks)
	}
	return stat.RepeatedConfidence(1)
}

// comparable reports whether two evaluations have the same starts and the same opponent, a of an earlier version.
func comparable(a, b *runspec.Spec) bool {
	return a.Evaluation.Against == b.Evaluation.Against && a.Evaluation.Seat == b.Evaluation.Seat && a.Seed == b.Seed &&
		string(a.Environment.Options) == string(b.Environment.Options) && slices.Equal(a.Policies, b.Policies) &&
		a.Evaluation.Version < b.Evaluation.Version
}

// compare takes the difference from an evaluation of an earlier version, start by start.
func (r *Result) compare(before, p *Played) {
	than, differences := rewardsByStart(before.Steps), stat.GroupedMean{}
	for seq, reward := range rewardsByStart(p.Steps) {
		if other, both := than[seq]; both {
			differences = differences.Add(stat.OneGroup([]float64{reward - other}))
		}
	}
	if r.Pairs = differences.Groups; r.Pairs < 2 {
		return
	}
	mean := differences.Interval(max(Confidence(&before.Status.Spec), Confidence(&p.Status.Spec)))
	version := before.Status.Spec.Evaluation.Version
	r.Before, r.Difference = &version, &mean
}

// rewardsByStart is the mean reward of the games of each start.
func rewardsByStart(steps []steprecord.StepRecord) map[rollout.GroupSeq]float64 {
	rewards := map[rollout.GroupSeq]float64{}
	for i := range steps {
		for _, g := range steps[i].Service.Groups {
			if len(g.Rewards) > 0 && steps[i].Done {
				mean, _ := stat.Moments(g.Rewards)
				rewards[g.Seq] = mean
			}
		}
	}
	return rewards
}
