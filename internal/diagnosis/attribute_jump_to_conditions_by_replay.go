package diagnosis

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/millrace/millrace/internal/kit/stat"
)

const (
	// mostConditions bounds those that a jump is shared among: each more doubles the replays.
	mostConditions = 4
	// noticeable is the least share of an effect for which a condition is examined.
	noticeable = 0.03
	// likely is how many standard errors to either side nine of ten values lie within.
	likely = 1.645
)

// changedCondition is one condition that differs, with its share of the effect.
type changedCondition struct {
	which condition
	sec   float64 // of the effect: its Shapley value
	share Share
}

// changedConditions lists the changed conditions by their share of the effect, the largest first. The shares are
// Shapley values: what restoring a condition adds to those restored already, over all orders of restoring. They add up
// to the part of the effect that the replay explains.
func changedConditions(m *measurements, reg *regime, p *predictions, c *comparison, e effect) []changedCondition {
	b := butForOf(m, reg, p, c)
	var found []changedCondition
	for which := range conditionCount {
		if b.couldChange(which) {
			found = append(found, changedCondition{which: which, sec: b.stepSec - b.seconds([]condition{which})})
		}
	}
	slices.SortStableFunc(found, func(a, b changedCondition) int {
		return cmp.Compare(math.Abs(b.sec), math.Abs(a.sec))
	})
	found = found[:min(len(found), mostConditions)]
	which := make([]condition, len(found))
	for i := range found {
		which[i] = found[i].which
	}
	for i, sec := range shapley(b.seconds, which) {
		f := &found[i]
		f.sec = sec
		of := sec / e.sec
		off := math.Abs(of) * likely * c.relativeError(f.which)
		f.share = Share{Of: of, Low: of - off, High: of + off}
	}
	found = slices.DeleteFunc(found, func(f changedCondition) bool { return math.Abs(f.share.Of) < noticeable })
	slices.SortStableFunc(found, func(a, b changedCondition) int { return cmp.Compare(b.sec, a.sec) })
	return found
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
			if set&(1<<i) == 0 {
				size := bits.OnesCount(uint(set))
				values[i] += factorial(size) * factorial(n-size-1) / factorial(n) * (sec[set] - sec[set|1<<i])
			}
		}
	}
	return values
}

// butFor replays the present level of the run with some conditions of a jump restored. The time that a step then saves
// is due to them.
type butFor struct {
	c       *comparison
	model   *replayModel // nil: the records do not hold what a replay takes, and only the trainer's time is put back
	slower  requestSlowdown
	limit   int // batches that staleness lets be outstanding
	stepSec float64
	nowSec  float64 // of the replay with nothing put back
}

func butForOf(m *measurements, reg *regime, p *predictions, c *comparison) *butFor {
	b := &butFor{c: c, limit: m.stalenessLimit(), stepSec: m.mean(c.after, (*step).seconds)}
	b.slower = slowdownOf(c, m.mean(c.before, (*step).seconds), b.stepSec)
	c.old[condSpeed], c.now[condSpeed], c.onset[condSpeed] = 1, b.slower[condSpeed], c.onset[condRequestSec]
	if p.model != nil {
		if now := p.model.stepWith(change{}); now > 0 && !math.IsInf(now, 1) {
			b.model, b.nowSec = p.model, now
		}
	}
	return b
}

// couldChange reports whether a condition is one that can be put back, and differs.
func (b *butFor) couldChange(which condition) bool {
	switch which {
	case condRequestSec, condInFlight, condAtOnce, condCrowding:
		return false
	case condSpeed, condMemory:
		return b.slower[which] > 1
	case condWithin, condBetween:
		return b.c.differs(which) && b.slower[condSpeed] <= 1
	}
	return b.c.differs(which)
}

// seconds is the step time when some conditions are as they were before.
func (b *butFor) seconds(back []condition) float64 {
	change := b.changeBack(back)
	if b.model == nil {
		return max(0, b.stepSec+change.computeSec+change.handoverSec)
	}
	q := b.model.changed(change)
	b.respread(q, back)
	sec := q.present().steadyStep()
	if !(sec > 0) || math.IsInf(sec, 1) {
		return b.stepSec
	}
	return b.stepSec * sec / b.nowSec
}

// changeBack is the change of a replay that restores conditions.
func (b *butFor) changeBack(back []condition) change {
	var c change
	for _, which := range back {
		if put := conditionKinds[which].back; put != nil {
			put(&c, b, b.c.old.or(which, 0), b.c.now.or(which, 0))
		} else if factor := conditionKinds[which].factor; factor != nil {
			by(factor(&c), b.c.backBy(which))
		}
	}
	return c
}

// backBy is the factor that makes a condition what it was; 1 where that is not known.
func (c *comparison) backBy(which condition) float64 {
	if old, now := c.old[which], c.now.or(which, 0); c.old.known(which) && now > 0 {
		return old / now
	}
	return 1
}

// respread makes the slowest games, and groups, as slow beside typical ones as they were. Slow engines spread the games
// that they play, so that their being as fast as before takes the spread away.
func (b *butFor) respread(p *replayModel, back []condition) {
	was := func(which condition) (old float64, less bool) {
		spreads := slices.Contains(back, condSpeed)
		old = b.c.old[which]
		return old, (spreads || slices.Contains(back, which)) && b.c.known(which) && b.c.now[which] > old
	}
	if old, less := was(condWithin); less {
		for i := range p.groups {
			p.groups[i].shorterBy(old / b.c.now[condWithin])
		}
	}
	if old, less := was(condBetween); less {
		p.capGroups(old * stat.Median(p.aloneSec()))
	}
}

// requestSlowdown is by how much each condition that acts on a request's time made requests slower at the same load.
type requestSlowdown [conditionCount]float64

// slowdownOf splits the slowdown of a request into its causes: first more tokens, as far as they explain it; then the
// engines' stalls; then their load, as far as their throughput rose with it. The rest is slower engines: at the same
// kind of work an engine never gives less under more requests, so one that gives less has become slower.
func slowdownOf(c *comparison, beforeSec, afterSec float64) requestSlowdown {
	var s requestSlowdown
	for i := range s {
		s[i] = 1
	}
	left := c.ratio(condRequestSec)
	if !c.differs(condRequestSec) || left <= 1 {
		return s
	}
	take := func(which condition, by float64) {
		s[which] = max(1, min(by, left))
		left /= s[which]
	}
	tokens := func(power float64) {
		for _, which := range []condition{condCompletion, condUncached, condPrompt} {
			if c.differs(which) {
				take(which, math.Pow(c.ratio(which), power))
			}
		}
	}
	whole, load := left, max(1, c.ratio(condInFlight))
	tokens(1)
	// Where something else did more, tokens did something between nothing and all that they can have done.
	if left > (1+moved)*load && left > whole/left {
		left = whole
		tokens(0.5)
	}
	if c.differs(condStall) {
		serving := func(stall, stepSec float64) float64 { return max(0.05, 1-stall/stepSec) }
		take(condStall, serving(c.old[condStall], beforeSec)/serving(c.now[condStall], afterSec))
	}
	if by := c.memoryShortage(); by > 1 {
		take(condMemory, by)
	}
	if least := left / load; least > 1+moved {
		if c.crowded() {
			left = least
		}
		take(condSpeed, left)
	}
	return s
}

// crowded reports whether an engine has more requests for a reason of its own: fewer engines, other runs, or games that
// ask more at once.
func (c *comparison) crowded() bool {
	return c.differs(condOthers) && c.now[condOthers] > c.old[condOthers] ||
		c.differs(condAtOnce) && c.now[condAtOnce] > (1+moved)*c.old[condAtOnce] ||
		c.differs(condEngines) && c.now[condEngines] < c.old[condEngines]
}
