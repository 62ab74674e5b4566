package diagnosis

import (
	"math"
	"slices"

	"github.com/millrace/millrace/internal/capacity"
	"github.com/millrace/millrace/internal/diagnosis/changepoint"
	"github.com/millrace/millrace/internal/rollout"
)

// speedShifts is the steps since which groups were played at another speed. Engines that become slower have more in
// flight, because fewer groups are ready: what differs across such a step says nothing of what the load does.
type speedShifts struct {
	steps []rollout.Step
	lag   rollout.Step // steps between a group's launch and its training
}

// shiftsOfSpeed finds them in the groups' request times, step by step.
func shiftsOfSpeed(m *measurements, obs []capacity.Observation) speedShifts {
	times := map[rollout.Step][]float64{}
	for _, o := range obs {
		if o.Sec > 0 {
			no := rollout.Step(o.Cluster)
			times[no] = append(times[no], o.Sec)
		}
	}
	var steps []rollout.Step
	var typical []float64
	for no := range times {
		steps = append(steps, no)
	}
	slices.Sort(steps)
	for _, no := range steps {
		typical = append(typical, median(times[no]))
	}
	s := speedShifts{lag: rollout.Step(m.depth())}
	if len(typical) > lastSteps {
		steps, typical = steps[len(steps)-lastSteps:], typical[len(typical)-lastSteps:]
	}
	found, err := changepoint.Detect(typical, changepoint.Options{MinEffect: 0.10})
	if err != nil {
		return s
	}
	for _, c := range found.Changes {
		// The groups of a prefill are launched all at once: they differ in the load that they meet.
		if math.Abs(float64(steps[c.At]-m.all[0].no)) > float64(s.lag)+1 {
			s.steps = append(s.steps, steps[c.At])
		}
	}
	return s
}

// changing is the stretch of steps in which the speed changes: what they show is of neither speed.
const changing = -1

// stretch numbers the stretches of steps with one speed. From so many steps before a shift until so many after it the
// speed is changing.
func (s speedShifts) stretch(no, before, after rollout.Step) int {
	number := 0
	for i, at := range s.steps {
		switch {
		case no >= at+after:
			number = i + 1
		case no >= at-before:
			return changing
		}
	}
	return number
}

// ofGroups is the stretch of groups by the step that they were trained on in: some were launched before a shift.
func (s speedShifts) ofGroups(no rollout.Step) int { return s.stretch(no, s.lag-1, s.lag) }

// ofWindows is the stretch of what engines did before a step was claimed: a shift shows there first.
func (s speedShifts) ofWindows(no rollout.Step) int { return s.stretch(no, 2*s.lag, 1) }

// apart is the observations of groups with those of each speed in series of their own.
func (s speedShifts) apart(obs []capacity.Observation) []capacity.Observation {
	var kept []capacity.Observation
	for _, o := range obs {
		if stretch := s.ofGroups(rollout.Step(o.Cluster)); stretch != changing {
			o.Series += series(0, stretch, 0)
			kept = append(kept, o)
		}
	}
	return kept
}

// slowedDown reports whether requests of the last stretch of one speed take longer than those of the one before.
func slowedDown(obs []capacity.Observation) bool {
	times := map[int][]float64{}
	latest := 0
	for _, o := range obs {
		if o.Series < series(0, 0, 1) { // with adapters: the base model is another
			times[o.Series] = append(times[o.Series], o.Sec)
			latest = max(latest, o.Series)
		}
	}
	before := latest - series(0, 1, 0)
	return len(times[before]) > 0 && median(times[latest]) > (1+moved)*median(times[before])
}
