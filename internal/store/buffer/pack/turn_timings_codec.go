package pack

import (
	"math"

	"github.com/millrace/millrace/internal/rollout"
)

// Turn timings stand behind all trajectories of a group or an episode, one kind of number after the other. They are
// noise, and between the turns they would spoil the compression. They are kept to the millisecond.

// maxMillis bounds a time that is written; 35 years.
const maxMillis = 1 << 40

// millis is seconds as whole milliseconds; what is no time is 0.
func millis(sec float64) uint64 {
	if !(sec > 0) {
		return 0
	}
	return uint64(math.Round(min(sec*1e3, maxMillis)))
}

func seconds(ms uint64) float64 { return float64(ms) / 1e3 }

func (w *writer) timings(ts []rollout.Trajectory) {
	failed := uint64(0)
	each := func(write func(*rollout.Timing)) {
		for i := range ts {
			for k := range ts[i].Turns {
				write(&ts[i].Turns[k].Timing)
			}
		}
	}
	each(func(t *rollout.Timing) { w.uint(millis(t.QueueSec)) })
	each(func(t *rollout.Timing) { w.uint(millis(t.ExecSec)) })
	each(func(t *rollout.Timing) { w.int(int64(t.Attempts)) })
	each(func(t *rollout.Timing) { failed += uint64(len(t.Failed)) })
	w.uint(failed)
	if failed == 0 {
		return
	}
	each(func(t *rollout.Timing) { w.failedAttempts(t.Failed) })
}

func (r *reader) timings(ts []rollout.Trajectory) {
	each := func(read func(*rollout.Timing)) {
		for i := range ts {
			for k := range ts[i].Turns {
				read(&ts[i].Turns[k].Timing)
			}
		}
	}
	each(func(t *rollout.Timing) { t.QueueSec = seconds(r.uint()) })
	each(func(t *rollout.Timing) { t.ExecSec = seconds(r.uint()) })
	each(func(t *rollout.Timing) { t.Attempts = int(r.int()) })
	if r.uint() > 0 {
		each(func(t *rollout.Timing) { t.Failed = r.failedAttempts() })
	}
}

// minFailedAttempt is the fewest bytes that a failed attempt can take in the plan column.
const minFailedAttempt = 3

func (w *writer) failedAttempts(attempts []rollout.RequestFailure) {
	w.uint(uint64(len(attempts)))
	for i := range attempts {
		w.name(string(attempts[i].Engine))
		w.name(string(attempts[i].Code))
		w.uint(millis(attempts[i].Sec))
	}
}

func (r *reader) failedAttempts() []rollout.RequestFailure {
	n := r.count(minFailedAttempt)
	if n == 0 {
		return nil
	}
	attempts := make([]rollout.RequestFailure, n)
	for i := range attempts {
		attempts[i].Engine = rollout.EngineID(r.name())
		attempts[i].Code = rollout.Code(r.name())
		attempts[i].Sec = seconds(r.uint())
	}
	return attempts
}

// timing writes the timing of one turn of a journal, to the nanosecond.
func (w *writer) timing(t *rollout.Timing) {
	w.float(t.QueueSec)
	w.float(t.ExecSec)
	w.int(int64(t.Attempts))
	w.failedAttempts(t.Failed)
}

func (r *reader) timing() rollout.Timing {
	return rollout.Timing{QueueSec: r.float(), ExecSec: r.float(), Attempts: int(r.int()), Failed: r.failedAttempts()}
}
