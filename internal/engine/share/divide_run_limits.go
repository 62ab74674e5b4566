package share

import (
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// RunLimits is a worker's share of the runs' own limits, most on each engine, in proportion to the slots due to its
// requests of the run. The shares of the workers that have requests add up to the limit. Every worker may still have
// one request at each engine, for its first ones, and when there are more workers than slots. A share grows only once
// the others have given up what they hold above theirs.
func RunLimits(d *Division, me string, members []Member, most map[rollout.RunName]int) map[rollout.RunName]int {
	members = sorted(members)
	limits := make(map[rollout.RunName]int, len(most))
	for run, limit := range most {
		if limit <= 0 {
			continue
		}
		dues, rank := make([]int, len(members)), 0
		free, asking := limit, 0
		for i, m := range members {
			switch {
			case m.Worker == me:
				rank = i
			default:
				free -= m.Runs[run]
			}
			for _, p := range d.Pools {
				dues[i] += p.ByRun[m.Worker][run]
			}
			if dues[i] > 0 {
				asking++
			}
		}
		due := max(1, limit/len(members)) // without requests
		if asking > 0 {
			due = apportion(max(0, limit), dues)[rank]
		}
		limits[run] = max(1, min(due, free))
	}
	return limits
}

// HeldRunLimits is the run limits of a worker that others must not use: those of runs that it has requests of.
func HeldRunLimits(demand []enginestate.RunDemand, limits map[rollout.RunName]int) map[rollout.RunName]int {
	held := map[rollout.RunName]int{}
	for _, d := range demand {
		if n := limits[d.Run]; n > 0 {
			held[d.Run] = n
		}
	}
	return held
}

// apportion divides an amount in proportion to weights: one for each that has any, and of the rest the largest
// remainders get what cannot be divided, the first of equals first.
func apportion(amount int, weights []int) []int {
	given := make([]int, len(weights))
	sum := 0
	for i, w := range weights {
		if w > 0 && amount > 0 {
			given[i]++
			amount--
		}
		sum += w
	}
	if sum == 0 {
		return given
	}
	order := make([]int, len(weights))
	rest := amount
	for i, w := range weights {
		order[i] = i
		given[i] += amount * w / sum
		rest -= amount * w / sum
	}
	slices.SortStableFunc(order, func(a, b int) int { return amount*weights[b]%sum - amount*weights[a]%sum })
	for _, i := range order[:rest] {
		given[i]++
	}
	return given
}
