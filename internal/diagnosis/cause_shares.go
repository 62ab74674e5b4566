package diagnosis

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// mostConditions bounds those that a jump is shared among: each more doubles the work.
	mostConditions = 6
	// shareResamplings is how many times the steps are drawn again for a share's interval.
	shareResamplings = 60
	// noticeable is the share of an effect below which a condition is not looked into.
	noticeable = 0.03
)

// changedCondition is one condition that differs, and what of the effect goes with it.
type changedCondition struct {
	which condition
	sec   float64 // of the effect: its Shapley value
	alone float64 // by how much a step would be shorter with this one alone put back
	share Share
}

// changedConditions is what differs after, by how much of the effect goes with it, the most first. The shares are
// Shapley's: what the condition adds to those put back already, over all orders of putting them back. They add up to
// what the model explains of the effect.
func changedConditions(
	m *measurements, reg *regime, p *predictions, c *comparison, e effect,
) []changedCondition {
	model, effectSec := newStepModel(m, reg, c), e.sec
	c.old[condSpeed], c.now[condSpeed], c.onset[condSpeed] = 1, model.slower[condSpeed], c.onset[condRequestSec]
	c.old[condPlaces], c.now[condPlaces] = model.old[condPlaces], model.now[condPlaces]
	var found []changedCondition
	for which := range conditionCount {
		if !c.couldChange(model, which) {
			continue
		}
		alone := model.stepSec - model.seconds([]condition{which})
		found = append(found, changedCondition{which: which, alone: alone})
	}
	slices.SortStableFunc(found, func(a, b changedCondition) int {
		return cmp.Compare(math.Abs(b.alone), math.Abs(a.alone))
	})
	if len(found) > mostConditions {
		found = found[:mostConditions]
	}
	which := make([]condition, len(found))
	for i := range found {
		which[i] = found[i].which
	}
	values := shapley(model.seconds, which)
	drawn := resampledShares(m, reg, c, model, which, effectSec)
	for i := range found {
		f := &found[i]
		f.sec = values[i]
		f.share = Share{Of: f.sec / effectSec, Low: quantile(drawn[i], 0.05), High: quantile(drawn[i], 0.95)}
		f.share.Low, f.share.High = min(f.share.Low, f.share.Of), max(f.share.High, f.share.Of)
	}
	found = slices.DeleteFunc(found, func(f changedCondition) bool { return math.Abs(f.share.Of) < noticeable })
	slices.SortStableFunc(found, func(a, b changedCondition) int {
		return cmp.Compare(math.Abs(b.sec), math.Abs(a.sec))
	})
	replayShares(butForOf(p, e, model), found[:min(len(found), mostReplayed)], effectSec)
	slices.SortStableFunc(found, func(a, b changedCondition) int { return cmp.Compare(b.sec, a.sec) })
	return found
}

// replayShares makes the shares what the replay gives. Their intervals stay as wide as they are.
func replayShares(b *butFor, found []changedCondition, effectSec float64) {
	if b == nil || len(found) == 0 {
		return
	}
	which := make([]condition, len(found))
	for i := range found {
		which[i] = found[i].which
	}
	for i, sec := range shapley(b.seconds, which) {
		f := &found[i]
		moved := sec/effectSec - f.share.Of
		f.sec, f.share = sec, Share{Of: f.share.Of + moved, Low: f.share.Low + moved, High: f.share.High + moved}
	}
}

// couldChange reports whether a condition is one that can be put back, and differs.
func (c *comparison) couldChange(model *stepModel, which condition) bool {
	switch which {
	case condRequestSec, condInFlight, condAtOnce, condCrowding:
		return false
	case condSpeed, condMemory:
		return model.slower[which] > 1
	case condPlaces, condTypical, condOddGame, condOddGroup:
		return false
	case condWithin, condBetween:
		return c.differs(which) && (model.straggles || model.slower[condSpeed] <= 1)
	}
	return c.differs(which)
}

// shapley is each condition's part of what putting all of them back changes, by a model of the step time.
func shapley(seconds func(back []condition) float64, which []condition) []float64 {
	n := len(which)
	sec := make([]float64, 1<<n)
	for set := range sec {
		var back []condition
		for i, one := range which {
			if set&(1<<i) != 0 {
				back = append(back, one)
			}
		}
		sec[set] = seconds(back)
	}
	factorial := func(k int) float64 { return math.Gamma(float64(k) + 1) }
	values := make([]float64, n)
	for i := range which {
		for set := range sec {
			if set&(1<<i) != 0 {
				continue
			}
			size := 0
			for j := range n {
				size += set >> j & 1
			}
			weight := factorial(size) * factorial(n-size-1) / factorial(n)
			values[i] += weight * (sec[set] - sec[set|1<<i])
		}
	}
	return values
}

// resampledShares is the shares that other steps like these would have given.
func resampledShares(
	m *measurements, reg *regime, c *comparison, model *stepModel, which []condition, effectSec float64,
) [][]float64 {
	rng := rand.New(rand.NewPCG(m.in.Seed, 0xca05e5))
	drawn := make([][]float64, len(which))
	if len(which) == 0 {
		return drawn
	}
	for range shareResamplings {
		again := c.resampled(rng)
		for i, v := range shapley(model.anchoredOn(m, reg, again).seconds, which) {
			drawn[i] = append(drawn[i], v/effectSec)
		}
	}
	return drawn
}

// resampled draws the steps of either side with replacement.
func (c *comparison) resampled(rng *rand.Rand) *comparison {
	draw := func(from []int) []int {
		out := make([]int, len(from))
		for i := range out {
			out[i] = from[rng.IntN(len(from))]
		}
		return out
	}
	again := *c
	again.after = draw(c.after)
	for which := range conditionCount {
		again.now[which] = again.mean(which, again.after)
		if len(c.left[which]) > 0 {
			again.old[which] = again.mean(which, draw(c.left[which]))
		}
	}
	return &again
}
