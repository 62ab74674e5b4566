package diagnosis

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/millrace/millrace/internal/diagnosis/changepoint"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

const (
	// unusualSigma and unusualShare are how far a step's compute must lie above the usual to be a loss.
	unusualSigma = 4.0
	unusualShare = 0.10
	// leastLevel is how many steps a level of the compute must last to be the floor.
	leastLevel = 3
	// raised is the share by which a level must lie above the floor to be a loss: less is noise.
	raised = 0.05
)

// computeLevels is the trainer's usual compute: everything but the wait, without phases named checkpoint or evaluation.
type computeLevels struct {
	sec    []float64   // of each step
	phases [][]float64 // of each step, by phase
	usual  []float64   // of each step: its level, or its place on a drift
	level  []int       // of each step
	first  []int       // of each level: position of its first step
	// lows is how much each phase takes usually, by level.
	lows  [][]float64
	cycle map[int]int // of each level that repeats itself: its period
	sigma float64     // noise, as a share
}

func computeLevelsOf(all []step) computeLevels {
	c := computeLevels{level: make([]int, len(all)), usual: make([]float64, len(all)), cycle: map[int]int{}}
	for i := range all {
		phases := slices.Clone(all[i].phases)
		phases[waitAt], phases[checkpointAt] = 0, 0
		for name, sec := range all[i].rec.Trainer.Phases {
			if evaluates(name) {
				phases[otherAt] -= sec
			}
		}
		c.phases, c.sec = append(c.phases, phases), append(c.sec, max(floats.Sum(phases), 1e-9))
	}
	found, err := changepoint.Detect(c.sec, changepoint.Options{Refine: true})
	segments := found.Segments
	if err != nil {
		segments = []changepoint.Segment{{From: 0, To: len(all)}}
	}
	var rest []float64
	for k, seg := range segments {
		c.describe(k, seg.From, seg.To)
		for _, d := range found.Drifts {
			if d.From >= seg.From && d.To <= seg.To {
				c.along(k, d)
			}
		}
		for i := seg.From; i < seg.To; i++ {
			rest = append(rest, math.Abs(math.Log(c.sec[i]/c.usual[i])))
		}
	}
	c.sigma = max(1.4826*stat.Median(rest), 0.02)
	return c
}

// describe sets a level's usual compute: the median, or the least place of a cycle.
func (c *computeLevels) describe(k, from, to int) {
	usual := stat.Median(c.sec[from:to])
	steps := positions(from, to)
	cycle, ok := changepoint.Oscillates(c.sec[from:to], changepoint.Options{})
	if ok && cycle.High > usual*(1+unusualShare) {
		usual, c.cycle[k] = cycle.Low, cycle.Period
		steps = slices.DeleteFunc(steps, func(i int) bool { return c.sec[i] > usual*(1+unusualShare) })
	}
	c.first, c.lows = append(c.first, from), append(c.lows, c.medians(steps))
	for i := from; i < to; i++ {
		c.level[i], c.usual[i] = k, usual
	}
}

// along replaces the level by a drift where there is one. The usual times of its phases are those at its beginning.
func (c *computeLevels) along(k int, d changepoint.Drift) {
	for i := d.From; i < d.To; i++ {
		c.usual[i] = d.Start * math.Pow(1+d.PerValue, float64(i-d.From))
	}
	c.lows[k] = c.medians(positions(d.From, d.From+max(leastLevel, (d.To-d.From)/4)))
}

// medians is each phase's median over some steps.
func (c *computeLevels) medians(steps []int) []float64 {
	out := make([]float64, len(steprecord.Phases()))
	for p := range out {
		values := make([]float64, len(steps))
		for k, i := range steps {
			values[k] = c.phases[i][p]
		}
		out[p] = stat.Median(values)
	}
	return out
}

// floor is the least that is usual for steps of so many groups, and the level that it is of.
func (c *computeLevels) floor(all []step, groups int) (sec float64, level int) {
	sec, level = math.Inf(1), -1
	for i := range all {
		k := c.level[i]
		long := len(c.first) == 1 || c.levelEnd(k)-c.first[k] >= leastLevel
		if all[i].view().GroupsPerStep == groups && long && c.usual[i] < sec {
			sec, level = c.usual[i], k
		}
	}
	return sec, level
}

func (c *computeLevels) levelEnd(k int) int {
	if k+1 < len(c.first) {
		return c.first[k+1]
	}
	return len(c.sec)
}

// lost is what the trainer itself lost: in single steps and now and then, by publishing, and by becoming slower.
func (c *computeLevels) lost(all []step) []lost {
	var out []lost
	floors := map[int]float64{}
	levels := map[int]int{}
	unusual := make([][]int, len(steprecord.Phases())) // positions by the phase that took longer
	for i := range all {
		groups := all[i].view().GroupsPerStep
		if _, known := floors[groups]; !known {
			floors[groups], levels[groups] = c.floor(all, groups)
		}
		if over := c.sec[i] - c.usual[i]; over > max(unusualShare, unusualSigma*c.sigma)*c.usual[i] ||
			c.cycle[c.level[i]] > 0 && over > unusualShare*c.usual[i] {
			if p := c.grown(i); all[i].paused {
				out = append(out, c.over(i, p, lossKey{cause: CausePaused, phase: steprecord.Phases()[p]}))
			} else {
				unusual[p] = append(unusual[p], i)
			}
		}
		out = append(out, c.published(i, levels[groups])...)
		out = append(out, c.raised(i, floors[groups], levels[groups])...)
	}
	for p, steps := range unusual {
		if len(steps) == 0 {
			continue
		}
		out = append(out, c.unusual(all, p, steps)...)
	}
	return out
}

// grown is the phase by which a step took longer than usual.
func (c *computeLevels) grown(i int) int {
	most := otherAt
	over := func(p int) float64 { return c.phases[i][p] - c.lows[c.level[i]][p] }
	for p := range steprecord.Phases() {
		if over(p) > over(most) {
			most = p
		}
	}
	return most
}

// unusual is the steps that took longer in one phase: every so many steps, now and then, or once.
func (c *computeLevels) unusual(all []step, phase int, steps []int) []lost {
	numbers := make([]rollout.Step, len(steps))
	idle := 0 // steps in which the phase usually takes next to nothing
	for k, i := range steps {
		numbers[k] = all[i].no
		if c.lows[c.level[i]][phase] < 0.02*c.usual[i] {
			idle++
		}
	}
	key := lossKey{cause: CauseSingleStep, phase: steprecord.Phases()[phase], every: spacing(numbers)}
	switch {
	case key.every > 0:
		key.cause = CausePeriodicPhase
	case len(steps) > 1 && 2*idle > len(steps):
		key.cause = CauseRarePhase
	}
	var out []lost
	for _, i := range steps {
		out = append(out, c.over(i, phase, key))
	}
	return out
}

// over is a step's excess over the usual, most of it in one phase.
func (c *computeLevels) over(i, phase int, key lossKey) lost {
	one := lost{lossKey: key, at: i, sec: c.sec[i] - c.usual[i], phase: make([]float64, len(c.phases[i]))}
	for p, sec := range c.phases[i] {
		one.phase[p] = max(0, sec-c.lows[c.level[i]][p])
	}
	grown := floats.Sum(one.phase)
	if grown <= 0 { // what is usual has moved, and no phase of it
		return lostIn(i, phase, key, one.sec)
	}
	floats.Scale(one.sec/grown, one.phase)
	return one
}

// published is the excess of publishing over a step where it takes little; empty where it takes little.
func (c *computeLevels) published(i, floor int) []lost {
	usual := c.lows[c.level[i]][publishAt]
	if usual <= usualPublish*c.usual[i] {
		return nil
	}
	if floor >= 0 {
		if low := c.lows[floor][publishAt]; low <= usualPublish*c.usual[c.first[floor]] {
			usual -= low
		}
	}
	key := lossKey{cause: CausePublish, phase: steprecord.PhasePublish}
	return []lost{lostIn(i, publishAt, key, min(usual, c.phases[i][publishAt]))}
}

// raised is how far a step's level lies above the floor, without publishing.
func (c *computeLevels) raised(i int, floorSec float64, floor int) []lost {
	if floor < 0 || c.usual[i] <= floorSec*(1+raised) {
		return nil
	}
	one := lost{at: i, phase: make([]float64, len(c.phases[i]))}
	risen := 0.0
	for p, low := range c.lows[floor] {
		one.phase[p] = c.lows[c.level[i]][p] - low
		if c.level[i] == floor { // it drifts: by what the step itself has more than is usual
			one.phase[p] = c.phases[i][p] - low
		}
		risen += max(0, one.phase[p])
	}
	one.phase[publishAt] = 0
	scale := (c.usual[i] - floorSec) / max(risen, 1e-9)
	for p := range one.phase {
		one.phase[p] = max(0, min(one.phase[p]*scale, c.phases[i][p]))
	}
	if one.sec = floats.Sum(one.phase); one.sec <= 0 {
		return nil
	}
	most := floats.MaxIdx(one.phase)
	one.lossKey = lossKey{cause: CauseTrainer, phase: steprecord.Phases()[most]}
	if most == refAt {
		one.cause = CauseRefLogprobs
	}
	return []lost{one}
}
