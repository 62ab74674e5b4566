package episode

import (
	"maps"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// addCost adds a phase's cost: sums over its requests to engines, and its critical path, which is its slowest request.
func (p *Player) addCost(ep *rollout.Episode, plan Plan, prompts []Prompt, completions []rollout.Completion) {
	var slowest rollout.Timing
	for i := range completions {
		c := &completions[i]
		if plan.Elsewhere[prompts[i].Policy].URL == "" {
			ep.Usage = ep.Usage.Add(c.Usage())
		}
		if c.Timing.ExecSec+c.Timing.QueueSec > slowest.ExecSec+slowest.QueueSec {
			slowest = c.Timing
		}
		started := p.Now().Add(-time.Duration(c.Timing.ExecSec * float64(time.Second)))
		if ep.StartedAt.IsZero() || (ep.Phases == 0 && started.Before(ep.StartedAt)) {
			ep.StartedAt = started
		}
	}
	ep.ModelSec += slowest.ExecSec
	ep.QueueSec += slowest.QueueSec
}

func answers(prompts []Prompt, completions []rollout.Completion) map[string]string {
	m := make(map[string]string, len(prompts))
	for i := range prompts {
		m[prompts[i].Agent] = completions[i].Text
	}
	return m
}

// record appends one turn to the trajectory of each learner that acted.
func record(ep *rollout.Episode, plan Plan, phase string, prompts []Prompt, completions []rollout.Completion,
	outcome Outcome) {
	for i := range prompts {
		if prompts[i].Policy != "" {
			continue
		}
		c := &completions[i]
		t := trajectory(ep, plan, prompts[i].Agent)
		t.Turns = append(t.Turns, rollout.Turn{
			Phase:          phase,
			PromptTokenIDs: c.PromptTokenIDs,
			TokenIDs:       c.TokenIDs,
			Logprobs:       c.Logprobs,
			Constraint:     prompts[i].Constraint,
			PolicyVersion:  plan.Version,
			Engine:         c.Engine,
			FinishReason:   c.FinishReason,
			Reward:         outcome.Rewards[prompts[i].Agent],
			Text:           c.Text,
			Timing:         c.Timing,
		})
	}
}

// count adds the environment's own counters.
func count(ep *rollout.Episode, counts map[string]int64) {
	if len(counts) == 0 {
		return
	}
	sum := maps.Clone(ep.Counts) // the old ones may be part of a progress that was saved
	if sum == nil {
		sum = map[string]int64{}
	}
	for name, n := range counts {
		sum[name] += n
	}
	ep.Counts = sum
}

// trajectory finds the agent's trajectory in ep, or begins it. The pointer is good until the next call.
func trajectory(ep *rollout.Episode, plan Plan, agent string) *rollout.Trajectory {
	for i := range ep.Trajectories {
		if ep.Trajectories[i].Agent == agent {
			return &ep.Trajectories[i]
		}
	}
	ep.Trajectories = append(ep.Trajectories, rollout.Trajectory{
		ID: plan.Ref.TrajectoryID(agent), Sample: plan.Ref.Sample, Agent: agent,
	})
	return &ep.Trajectories[len(ep.Trajectories)-1]
}
