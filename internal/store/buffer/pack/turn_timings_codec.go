package pack

import (
	"math"

	"github.com/millrace/millrace/internal/rollout"
)

// Turn timings stand behind all trajectories of a group or an episode, one kind of number after the other. They are
// noise, and between the turns they would spoil the compression. They are kept to the millisecond.

// maxMillis bounds a time that is written; 35 years.
const maxMillis = 1 << 40

// millis writes seconds as whole milliseconds; what is no time is 0.
func (w *writer) millis(sec float64) {
	if !(sec > 0) {
		sec = 0
	}
	w.uint(uint64(math.Round(min(sec*1e3, maxMillis))))
}

func (r *reader) millis() float64 { return float64(r.uint()) / 1e3 }

func (c codec) timings(ts []rollout.Trajectory) {
	each := func(do func(*rollout.Timing)) {
		for i := range ts {
			for k := range ts[i].Turns {
				do(&ts[i].Turns[k].Timing)
			}
		}
	}
	each(func(t *rollout.Timing) { c.millis(&t.QueueSec) })
	each(func(t *rollout.Timing) { c.millis(&t.ExecSec) })
	each(func(t *rollout.Timing) { integer(c, &t.Attempts) })
	failed := uint64(0)
	each(func(t *rollout.Timing) { failed += uint64(len(t.Failed)) })
	if c.uint(&failed); failed > 0 {
		each(func(t *rollout.Timing) { c.failedAttempts(&t.Failed) })
	}
}

// minFailedAttempt is the fewest bytes that a failed attempt can take in the plan column.
const minFailedAttempt = 3

func (c codec) failedAttempts(attempts *[]rollout.RequestFailure) {
	all := optional(c, attempts, minFailedAttempt)
	for i := range all {
		name(c, &all[i].Engine)
		name(c, &all[i].Code)
		c.millis(&all[i].Sec)
	}
}

// timing is the timing of one turn of a journal, to the nanosecond.
func (c codec) timing(t *rollout.Timing) {
	c.float(&t.QueueSec)
	c.float(&t.ExecSec)
	integer(c, &t.Attempts)
	c.failedAttempts(&t.Failed)
}
