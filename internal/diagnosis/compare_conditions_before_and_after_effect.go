package diagnosis

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/stat"
)

// comparison holds the conditions of a run before and after an effect.
type comparison struct {
	perStep []conditions // by position in history.steps
	before  []int        // positions of the steps before; empty: there is no before
	after   []int
	from    int     // first position that is looked at
	to      int     // and the one after the last
	least   float64 // the fewest steps before from which a change is concluded
	// prefilled is the position after the batches that were launched before the first step: all at once, on engines
	// that had nothing else to do. What they show is no before of any other.
	prefilled int

	left   [conditionCount][]int // the steps before each condition changed
	onset  [conditionCount]int   // position of the first step whose batch shows the change
	old    conditions            // before each changed
	now    conditions            // in the steps after
	spread [conditionCount]float64
}

// compare finds for each condition where it changed. A full buffer hides a cause: batches that were played after it are
// still consumed at the old pace, and are not its before.
func compare(m *measurements, before, after []int, jump bool) *comparison {
	c := &comparison{perStep: stepConditions(m), before: before, after: after, least: 1}
	if !jump { // the first steps of a run differ from all others, and that is no jump
		c.least = leastBefore
	}
	c.from, c.to = after[0], after[len(after)-1]+1
	if len(before) > 0 {
		c.from = before[0]
	}
	for i := range m.steps {
		if s := &m.steps[i]; int(s.no) < s.view().Depth {
			c.prefilled = i + 1
		}
	}
	for which := range conditionCount {
		c.split(which)
	}
	return c
}

// plain is by how many standard errors a condition must have moved to show a change that the steps do not show.
const plain = 5

// changedWithin is the first step of a level of steps that wait with which one of its conditions changed plainly, and
// steps became slower on the mean. The steps of a run that waits vary so much that they hide a change of what they
// are made of.
func changedWithin(m *measurements, level levelSteps) (at int, changes bool) {
	steps := positions(level.from, level.to)
	if m.mean(steps, (*step).wait) < minWaitShare*m.mean(steps, (*step).seconds) {
		return 0, false
	}
	perStep := stepConditions(m)
	from, strongest := level.from, 0.0
	for from < level.to && int(m.steps[from].no) < m.steps[from].view().Depth {
		from++
	}
	for which := range conditionCount {
		if from+2*leastBefore > level.to || !ofGames(which) && which != condEngines && which != condDepth {
			continue
		}
		c := comparison{perStep: perStep, from: from, to: level.to, after: positions(from, level.to)}
		cut := c.likeliestChange(which)
		if cut < from+leastBefore || cut > level.to-leastBefore {
			continue
		}
		c.left[which], c.after = positions(from, cut), positions(cut, level.to)
		c.old[which], c.now[which] = c.mean(which, c.left[which]), c.mean(which, c.after)
		apart := math.Abs(c.now[which] - c.old[which])
		slower := m.mean(c.after, (*step).seconds) > (1+movedLittle)*m.mean(c.left[which], (*step).seconds)
		errors := apart / max(c.standardError(which), 1e-9)
		if slower && errors > max(plain, strongest) && apart > moved*math.Abs(c.old[which]) {
			at, strongest = cut, errors
		}
	}
	return at, strongest > 0
}

// ofGames reports whether a condition is one of games played, and not of the trainer or the fleet.
func ofGames(which condition) bool {
	return which >= condGroups && which <= condBetween || which == condRequestSec
}

// split finds the step from which on a condition is as it is after.
func (c *comparison) split(which condition) {
	c.now[which] = c.mean(which, c.after)
	c.old[which], c.onset[which] = math.NaN(), -1
	if len(c.before) == 0 {
		return
	}
	at := c.likeliestChange(which)
	c.onset[which] = at
	for _, i := range c.before {
		if i < at {
			c.left[which] = append(c.left[which], i)
		}
	}
	if len(c.left[which]) == 0 {
		c.left[which] = c.before
	}
	if ofGames(which) {
		c.left[which] = slices.DeleteFunc(slices.Clone(c.left[which]), func(i int) bool { return i < c.prefilled })
	}
	c.old[which] = c.mean(which, c.left[which])
	c.spread[which] = c.standardError(which)
}

// likeliestChange is the position at which the values before and after differ most by their ranks (Pettitt's test): it
// needs no distribution, and a single odd step does not move it.
func (c *comparison) likeliestChange(which condition) int {
	type value struct {
		at int
		v  float64
	}
	var values []value
	for i := c.from; i < c.to; i++ {
		if v := c.perStep[i][which]; !math.IsNaN(v) {
			values = append(values, value{i, v})
		}
	}
	if len(values) < 2 {
		return c.after[0]
	}
	sorted := slices.Clone(values)
	slices.SortStableFunc(sorted, func(a, b value) int { return cmp.Compare(a.v, b.v) })
	rank := map[int]float64{}
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j].v-sorted[i].v <= 1e-9*math.Abs(sorted[i].v)+1e-12 {
			j++
		}
		for k := i; k < j; k++ {
			rank[sorted[k].at] = float64(i+j-1) / 2
		}
		i = j
	}
	best, most, sum := c.after[0], 0.0, 0.0
	middle := float64(len(values)-1) / 2
	for i, v := range values[:len(values)-1] {
		sum += rank[v.at] - middle
		if math.Abs(sum) > most+1e-9 {
			best, most = values[i+1].at, math.Abs(sum)
		}
	}
	return best
}

// values is a condition over some steps, of those that tell.
func (c *comparison) values(which condition, steps []int) []float64 {
	var values []float64
	for _, i := range steps {
		if c.perStep[i].known(which) {
			values = append(values, c.perStep[i][which])
		}
	}
	return values
}

// mean is their mean; NaN when no step has the value.
func (c *comparison) mean(which condition, steps []int) float64 {
	mean, _ := stat.Moments(c.values(which, steps))
	return mean
}

// standardError is how far the difference of the means may be off, from how the steps of either side differ.
func (c *comparison) standardError(which condition) float64 {
	squares, freedom, inverse := 0.0, 0.0, 0.0
	for _, side := range [][]int{c.left[which], c.after} {
		values := c.values(which, side)
		if n := float64(len(values)); n > 1 {
			_, deviations := stat.Moments(values)
			squares += deviations
			freedom += n - 1
		}
		inverse += 1 / float64(max(1, len(values)))
	}
	if freedom == 0 {
		return math.Inf(1)
	}
	return math.Sqrt(squares / freedom * inverse)
}

// relativeError is how far a condition's change may be off, as a share of it.
func (c *comparison) relativeError(which condition) float64 {
	switch off := c.spread[which] / math.Abs(c.now[which]-c.old[which]); {
	case which == condSpeed:
		return c.relativeError(condRequestSec)
	case math.IsNaN(off):
		return 0
	default:
		return min(off, 1)
	}
}

// known reports whether a condition is known before and after.
func (c *comparison) known(which condition) bool { return c.old.known(which) && c.now.known(which) }

// ratio is a condition after by what it was before; 1 when either is not known.
func (c *comparison) ratio(which condition) float64 {
	old, now := c.old[which], c.now[which]
	if math.IsNaN(old) || math.IsNaN(now) || old <= 0 || now <= 0 {
		return 1
	}
	return now / old
}

const (
	// leastBefore is how many steps before make a before where no jump shows.
	leastBefore = 3
	// beyondNoise is how many standard errors a condition must have moved.
	beyondNoise = 3
	// movedLittle is the least relative change of a condition that is examined.
	movedLittle = 0.05
)

// differs reports whether a condition changed by more than its noise.
func (c *comparison) differs(which condition) bool {
	old, now := c.old[which], c.now[which]
	if math.IsNaN(old) || math.IsNaN(now) {
		return false
	}
	n := float64(len(c.left[which]))
	if n < c.least {
		return false
	}
	apart, noise := math.Abs(now-old), (beyondNoise+4/(n*n))*c.spread[which] // one step tells little of its noise
	return apart > movedLittle*max(math.Abs(old), math.Abs(now)) && apart > noise
}

// began is when the first group was launched whose batch shows a condition's change.
func (c *comparison) began(m *measurements, which condition) time.Time {
	at := c.onset[which]
	if at < 0 || at >= len(m.steps) {
		return time.Time{}
	}
	first := firstLaunch(m.steps[at : at+1])
	if first.IsZero() {
		first, _ = m.steps[at].span()
	}
	return first
}
