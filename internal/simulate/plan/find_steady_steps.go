package plan

import (
	"math"
	"slices"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

const (
	// steadySteps is about how many steps a setting's figures are of, in each simulation.
	steadySteps = 24
	// doublings is how often a simulation that is not steady is made twice as long.
	doublings = 3
	// drift is how many batches a step the buffer may gain or lose in steps that are steady. A buffer that loses 0.01
	// batches a step hides that engines are 1 % too slow.
	drift = 0.01
	// hardlyStarved is the starved share from which on a setting is measured from an empty buffer: engines that cannot
	// keep up empty every buffer, and it is not waited for.
	hardlyStarved = 0.02
)

// length is how many steps are simulated for a setting, at first: whole cycles of the depth, for a starved run may
// repeat itself with that period.
func length(depth int) int {
	cycles := (steadySteps + depth - 1) / depth
	return 1 + depth + cycles*depth
}

// steadyFrom is the rule by which steady steps are found, wherever a plan needs them. Step 0 waits for the first batch
// and is left out. Of the others, in blocks of depth steps, so many are left out at the beginning that the mean of the
// rest is known best (the marginal standard error rule of White, 1997), and at most half of them. They are steady
// if that is not the most that may be left out, or changes the mean by less than 1 %, and if the buffer neither drains
// nor fills.
func steadyFrom(steps []steprecord.StepRecord, depth int) (from int, steady bool) {
	if len(steps) < 3 {
		return min(1, max(0, len(steps)-1)), false
	}
	depth = max(1, min(depth, (len(steps)-1)/2))
	blocks := make([]float64, 0, len(steps)/depth)
	for at := 1; at+depth <= len(steps); at += depth {
		sum := 0.0
		for _, s := range steps[at : at+depth] {
			sum += s.StepSec()
		}
		blocks = append(blocks, sum/float64(depth))
	}
	best, least := 0, math.Inf(1)
	for out := 0; out <= len(blocks)/2; out++ {
		if e := squaredError(blocks[out:]); e < least*(1-1e-9) {
			best, least = out, e
		}
	}
	const matters = 0.01
	rest, _ := stat.Moments(blocks[best:])
	all, _ := stat.Moments(blocks)
	change := rest/all - 1
	steady = (best < max(1, len(blocks)/2) || math.Abs(change) < matters) && !draining(steps[1+best*depth:])
	return 1 + best*depth, steady
}

// squaredError is the squared standard error of a mean, for values of which nothing else is known. Values that hardly
// differ are taken for equal.
func squaredError(values []float64) float64 {
	const exact = 1e-6
	n := float64(len(values))
	mean, squares := stat.Moments(values)
	return (squares/n + mean*mean*exact*exact) / n
}

// draining reports whether the buffer gains or loses more than a drift in each step, beyond what may be chance: by the
// slope of the ready batches at the claims and twice its standard error.
func draining(steps []steprecord.StepRecord) bool {
	if len(steps) < 4 {
		return false
	}
	number, depth := make([]float64, len(steps)), make([]float64, len(steps))
	for i, s := range steps {
		number[i], depth[i] = float64(i), s.Service.ReadyDepth
	}
	slope, deviation := stat.Slope(number, depth)
	return math.Abs(slope)-2*deviation > drift
}

// done is the records of completed steps, in order.
func done(records []steprecord.StepRecord) []steprecord.StepRecord {
	out := slices.DeleteFunc(slices.Clone(records), func(r steprecord.StepRecord) bool { return !r.Done })
	slices.SortStableFunc(out, func(a, b steprecord.StepRecord) int { return int(a.Step - b.Step) })
	return out
}
