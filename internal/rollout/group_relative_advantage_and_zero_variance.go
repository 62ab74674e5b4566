package rollout

import "math"

// advantageEpsilon keeps the division finite, as GRPO implementations do.
const advantageEpsilon = 1e-8

// Normalise sets the advantage of every trajectory: (reward - mean) / max(std, 1e-8) over the
// trajectories of the same agent, with the population standard deviation (GRPO, arXiv 2402.03300
// section 4.1.2). A single sample, or equal rewards, give 0.
func Normalise(trajectories []Trajectory) {
	byAgent := map[string][]int{}
	for i := range trajectories {
		agent := trajectories[i].Agent
		byAgent[agent] = append(byAgent[agent], i)
	}
	for _, members := range byAgent {
		mean, std := moments(trajectories, members)
		for _, i := range members {
			trajectories[i].Advantage = (trajectories[i].Reward - mean) / math.Max(std, advantageEpsilon)
		}
	}
}

// HasZeroVariance reports whether the trajectories say nothing to a trainer that compares rewards: for each agent, all
// are equal.
func HasZeroVariance(trajectories []Trajectory) bool {
	first := map[string]float64{}
	for i := range trajectories {
		t := &trajectories[i]
		reward, seen := first[t.Agent]
		if seen && reward != t.Reward {
			return false
		}
		first[t.Agent] = t.Reward
	}
	return true
}

func moments(trajectories []Trajectory, members []int) (mean, std float64) {
	for _, i := range members {
		mean += trajectories[i].Reward
	}
	mean /= float64(len(members))
	equal := true
	for _, i := range members {
		d := trajectories[i].Reward - mean
		std += d * d
		equal = equal && trajectories[i].Reward == trajectories[members[0]].Reward
	}
	if equal {
		// The mean of equal floats need not equal them; without this, rounding noise would be divided by epsilon.
		return trajectories[members[0]].Reward, 0
	}
	return mean, math.Sqrt(std / float64(len(members)))
}
