package scaling

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// worthwhile is by what share engines must shorten a run's steps to be bought.
const worthwhile = 0.03

// need is what one run needs of the fleet.
type need struct {
	run *Run
	// work is the run's work per step in seconds of one engine, and pace the step time that no engine can shorten: the
	// trainer's, the games' latency, or the one that is short enough.
	work, pace float64
	// engines keeps that pace, without head room.
	engines  float64
	capacity bool // the run waits for more engines
	shares   bool // because others use the fleet, too
	known    bool // the trainer's compute is, too
}

// starved is the share of the time that a trainer must have waited of late to count as starved.
const starved = 0.01

// A fleet counts as full when it was as full as that of late, and cannot be what a trainer waits for when it was less
// full than that.
const (
	full    = 0.9
	notFull = 0.75
)

// starves reports whether the run's trainer waits for what the fleet cannot do, or will wait as soon as its buffer is
// empty, because the fleet is full all the time. One that has done no step waits for its first.
func (m *Machine) starves(r *Run) bool {
	of := m.stepsOf(r.Name)
	if of == nil || of.Full < notFull {
		return false
	}
	if r.C <= 0 {
		return r.Waits
	}
	return of.Starved > starved || of.Full > full
}

// needsOf is the needs of the active runs, those of the highest priority first.
func (m *Machine) needsOf(s *Sample) []need {
	var needs []need
	for i := range s.Runs {
		if r := &s.Runs[i]; r.active() {
			needs = append(needs, m.needOf(s, r))
		}
	}
	m.share(s, needs)
	slices.SortStableFunc(needs, func(a, b need) int {
		return cmp.Or(cmp.Compare(b.run.Priority, a.run.Priority), cmp.Compare(a.run.Name, b.run.Name))
	})
	return needs
}

// with is the engines that keep the run's pace with so much room, and no more than it may have.
func (n *need) with(room float64) float64 {
	engines := n.engines * (1 + room)
	if most := n.run.MaxEngines; most > 0 {
		engines = min(engines, float64(most))
	}
	return engines
}

// capped reports whether the run may not have the engines that keep its pace.
func (n *need) capped() bool {
	return n.run.MaxEngines > 0 && n.pace > 0 && n.work > n.pace*float64(n.run.MaxEngines)
}

// share finds the runs that wait for capacity because they share the fleet: each would keep its pace with all of it,
// and together they need more. Runs with unknown needs do not count.
func (m *Machine) share(s *Sample, needs []need) {
	together, runs := 0.0, 0
	for i := range needs {
		if n := &needs[i]; n.known {
			together, runs = together+n.engines, runs+1
		}
	}
	if runs < 2 || together <= float64(max(1, s.Engines.Ready))*(1+worthwhile) {
		return
	}
	for i := range needs {
		n := &needs[i]
		n.shares = !n.capacity && n.known && m.starves(n.run)
		n.capacity = n.capacity || n.shares
	}
}

func (m *Machine) needOf(s *Sample, r *Run) need {
	n := need{run: r, work: r.work(), pace: m.pace(s, r)}
	if n.work <= 0 || n.pace <= 0 {
		return n
	}
	n.known = r.C > 0
	n.engines = n.work / n.pace
	n.capacity = m.starves(r) && r.P > n.pace*(1+worthwhile)
	n.engines = n.with(0)
	return n
}

// pace is the step time of a run that never waits for capacity; 0: not known. Before the first step is done, the
// trainer's pace is not known. The first batch is then to come within two cold starts: engines that take longer to
// start than the batch takes without them come too late for it, and may turn out not to be needed for the next.
func (m *Machine) pace(s *Sample, r *Run) float64 {
	pace := max(r.C, m.Config.Starvation.TargetStep.Std().Seconds(), r.RD)
	if r.C > 0 {
		return pace
	}
	return max(pace, 2*m.coldStart(s).Seconds())
}

// sums is what all runs need together.
type sums struct {
	work     float64
	engines  float64 // to keep every run's pace
	buys     float64 // the same with head room for those that wait for capacity
	keeps    float64 // the same with what is to spare where others are given back
	capacity *need   // the first run that waits for it, of those that would alone, too, if any; nil: none
	known    bool    // of all runs
}

func (m *Machine) sum(needs []need) sums {
	t := sums{known: true}
	for i := range needs {
		n := &needs[i]
		t.known = t.known && n.known
		t.work += n.work
		t.engines += n.engines
		t.keeps += n.with(spare)
		room := 0.0
		if n.capacity {
			room = m.Config.Effective().Starvation.HeadRoom
			if t.capacity == nil || t.capacity.shares && !n.shares {
				t.capacity = n
			}
		}
		t.buys += n.with(room)
	}
	return t
}

// predict predicts the runs' step times with so many engines, where known. If there are too few, runs of a higher
// priority come first.
func predict(needs []need, engines int) []Effect {
	var effects []Effect
	left := float64(engines)
	for i := 0; i < len(needs); {
		equal, wanted := i, 0.0
		for ; equal < len(needs) && needs[equal].run.Priority == needs[i].run.Priority; equal++ {
			wanted += needs[equal].engines
		}
		share := 1.0
		if wanted > 0 {
			share = min(1, left/wanted)
		}
		for ; i < equal; i++ {
			n := &needs[i]
			if gets := n.engines * share; gets > 0 {
				effects = append(effects, Effect{Run: n.run.Name, PredictedSec: max(n.pace, n.work/gets)})
			}
		}
		left = max(0, left-wanted)
	}
	return effects
}

// whole is the least number of engines that is as many as needed. What the arithmetic adds does not count.
func whole(engines float64) int {
	return int(math.Ceil(min(engines, MostEngines) - 1e-6))
}

// measuredOver is of how many steps a run's step time is the mean: a latency-bound one repeats itself with the depth.
func measuredOver(depth int) int { return min(max(4, 2*depth), keptSteps/2) }

// before is how long a run's steps take now; 0: not known.
func (m *Machine) before(run rollout.RunName, depth int) float64 {
	if of := m.stepsOf(run); of != nil {
		return of.newest(measuredOver(depth))
	}
	return 0
}

// holdFor is for how long fewer engines must have been enough before they are given back: for a cold start, within
// which it is as cheap to keep them, and for two steps, so that no part of one is taken for all of it.
func (m *Machine) holdFor(s *Sample) time.Duration {
	hold := m.coldStart(s)
	for i := range s.Runs {
		if r := &s.Runs[i]; r.active() {
			steps := 2 * max(m.before(r.Name, r.Depth), r.C)
			hold = max(hold, time.Duration(min(steps, 24*3600)*float64(time.Second)))
		}
	}
	return hold
}
