package steprecord

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
)

// Tally counts what became of a group's games and answers, beside their rewards.
type Tally struct {
	Games     int `json:"games"`               // that are trained on; 0: nothing here is known
	Truncated int `json:"truncated,omitempty"` // of them, ended at their horizon
	Failed    int `json:"failed,omitempty"`    // given up, and not among Games
	Cancelled int `json:"cancelled,omitempty"` // stopped because others sufficed, and not among Games
	Turns     int `json:"turns,omitempty"`
	CutTurns  int `json:"cut_turns,omitempty"` // whose answer ended at the limit of tokens
	// Answers is those that the environment judged, of all players; Invalid those that it could not use.
	Answers int64 `json:"answers,omitempty"`
	Invalid int64 `json:"answers_invalid,omitempty"`
}

// Add is both as one.
func (t Tally) Add(o Tally) Tally {
	return Tally{t.Games + o.Games, t.Truncated + o.Truncated, t.Failed + o.Failed, t.Cancelled + o.Cancelled,
		t.Turns + o.Turns, t.CutTurns + o.CutTurns, t.Answers + o.Answers, t.Invalid + o.Invalid}
}

func tallyOf(g *rollout.Group) Tally {
	of := Tally{Failed: g.Failed, Cancelled: g.Cancelled}
	truncated := map[int]bool{}
	for i := range g.Trajectories {
		t := &g.Trajectories[i]
		truncated[t.Sample] = truncated[t.Sample] || t.Truncated
		of.Turns += len(t.Turns)
		for j := range t.Turns {
			if t.Turns[j].FinishReason == rollout.FinishLength {
				of.CutTurns++
			}
		}
	}
	of.Games = len(truncated)
	for _, is := range truncated {
		if is {
			of.Truncated++
		}
	}
	for name, n := range g.Counts {
		judged, useless := judgedAnswers(name)
		if judged {
			of.Answers += n
		}
		if useless {
			of.Invalid += n
		}
	}
	return of
}

// judgedAnswers reports whether an environment's counter is of answers, and of such as it could not use.
func judgedAnswers(counter string) (judged, useless bool) {
	of, kind, _ := strings.Cut(counter, "_")
	judged = slices.Contains([]string{"answers", "moves", "actions"}, of)
	return judged, judged && slices.Contains([]string{"invalid", "empty", "illegal", "unparsed"}, kind)
}

// mostAgents bounds the agents of a game whose rewards are told apart.
const mostAgents = 16

// agentRewards is the rewards of each agent in the order of the samples; nil unless there are several agents.
func agentRewards(trajectories []rollout.Trajectory) map[string][]float64 {
	rewards := map[string][]float64{}
	for i := range trajectories {
		rewards[trajectories[i].Agent] = append(rewards[trajectories[i].Agent], trajectories[i].Reward)
	}
	if len(rewards) < 2 || len(rewards) > mostAgents {
		return nil
	}
	return rewards
}

// Results is what came of the games of some groups. Those of several can be put together.
type Results struct {
	Reward       stat.GroupedMean            `json:"reward"`                  // of the games
	Agents       map[string]stat.GroupedMean `json:"agents,omitempty"`        // of each agent, where there are several
	Groups       int                         `json:"groups"`                  // whatever is known of them
	ZeroVariance int                         `json:"zero_variance,omitempty"` // of the groups
	Unusable     int                         `json:"unusable,omitempty"`      // rewards that are no numbers, and left out
	Phases       int                         `json:"phases,omitempty"`        // of the Lengths games together
	Longest      int                         `json:"longest,omitempty"`       // of the games, in phases
	Lengths      int                         `json:"lengths,omitempty"`       // games whose length is known
	Sequences    int                         `json:"sequences,omitempty"`     // turns that are trained on
	PromptTokens int64                       `json:"prompt_tokens,omitempty"` // of the sequences
	OutputTokens int64                       `json:"output_tokens,omitempty"`
	Tally        Tally                       `json:"tally,omitzero"`
	Orders       map[rollout.Order]int       `json:"orders,omitempty"` // games by who ended before whom
}

// VersionResults is the results of one version's games.
type VersionResults struct {
	Version rollout.PolicyVersion `json:"policy_version"`
	Results
}

// Add is both as one; neither is changed.
func (r Results) Add(o Results) Results {
	agents := r.Agents
	if len(o.Agents) > 0 {
		agents = maps.Clone(o.Agents)
		for name, of := range r.Agents {
			agents[name] = of.Add(agents[name])
		}
	}
	orders := r.Orders
	if len(o.Orders) > 0 {
		orders = maps.Clone(o.Orders)
		for order, n := range r.Orders {
			orders[order] += n
		}
	}
	return Results{r.Reward.Add(o.Reward), agents, r.Groups + o.Groups, r.ZeroVariance + o.ZeroVariance,
		r.Unusable + o.Unusable, r.Phases + o.Phases, max(r.Longest, o.Longest), r.Lengths + o.Lengths,
		r.Sequences + o.Sequences, r.PromptTokens + o.PromptTokens, r.OutputTokens + o.OutputTokens,
		r.Tally.Add(o.Tally), orders}
}

// results is those of one group.
func (g *GroupView) results() Results {
	rewards := numbers(g.Rewards)
	r := Results{Reward: stat.OneGroup(rewards), Groups: 1, Unusable: len(g.Rewards) - len(rewards),
		Lengths: len(g.Phases), Sequences: g.Trained.Sequences, PromptTokens: g.Trained.PromptTokens.Sum,
		OutputTokens: g.Trained.CompletionTokens.Sum, Tally: g.Tally,
		Orders: g.Orders}
	if g.ZeroVariance {
		r.ZeroVariance = 1
	}
	for _, n := range g.Phases {
		r.Phases, r.Longest = r.Phases+n, max(r.Longest, n)
	}
	for name, all := range g.AgentRewards {
		if r.Agents == nil {
			r.Agents = map[string]stat.GroupedMean{}
		}
		r.Agents[name] = stat.OneGroup(numbers(all))
	}
	return r
}

func numbers(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}

// ResultsOf is the results of groups by the oldest version that played them, the oldest first.
func ResultsOf(groups []GroupView) []VersionResults {
	var all []VersionResults
	for i := range groups {
		k, found := slices.BinarySearchFunc(all, groups[i].MinVersion, func(r VersionResults, v rollout.PolicyVersion) int {
			return cmp.Compare(r.Version, v)
		})
		if !found {
			all = slices.Insert(all, k, VersionResults{Version: groups[i].MinVersion})
		}
		all[k].Results = all[k].Add(groups[i].results())
	}
	return all
}

// Played is Results, or what the groups tell as long as the record has none.
func (v *ServiceView) Played() []VersionResults {
	if len(v.Results) > 0 {
		return v.Results
	}
	return ResultsOf(v.Groups)
}

// Reward is that of all games of the step.
func (v *ServiceView) Reward() (all stat.GroupedMean) {
	for _, of := range v.Played() {
		all = all.Add(of.Reward)
	}
	return all
}
