package diagnosis

import (
	"time"

	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// arrivalInterval is the time in which the fleet delivered a batch's worth of groups, from the
// groups' own clocks: a check on P that shares no input with it.
func (m *measurements) arrivalInterval() (float64, bool) {
	if len(m.present) < 2 {
		return 0, false
	}
	from, to := m.present[0], m.present[len(m.present)-1]
	first, ok1 := meanArrival(m.steps[from].view().Groups)
	last, ok2 := meanArrival(m.steps[to].view().Groups)
	return last.Sub(first).Seconds() / float64(to-from), ok1 && ok2 && last.After(first)
}

// meanArrival is the middle of a batch's arrival.
func meanArrival(groups []steprecord.GroupView) (time.Time, bool) {
	if len(groups) == 0 {
		return time.Time{}, false
	}
	origin, sum := groups[0].Times.ReadyAt, 0.0
	for _, g := range groups {
		if g.Times.ReadyAt.IsZero() {
			return time.Time{}, false
		}
		sum += g.Times.ReadyAt.Sub(origin).Seconds()
	}
	return origin.Add(time.Duration(sum / float64(len(groups)) * float64(time.Second))), true
}
