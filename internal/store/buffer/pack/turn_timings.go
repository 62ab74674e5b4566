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
	each(func(t *rollout.Timing) { w.int(int64(t.Tries)) })
	each(func(t *rollout.Timing) { failed += uint64(len(t.Failed)) })
	w.uint(failed)
	if failed == 0 {
		return
	}
	each(func(t *rollout.Timing) { w.failedTries(t.Failed) })
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
	each(func(t *rollout.Timing) { t.Tries = int(r.int()) })
	if r.uint() > 0 {
		each(func(t *rollout.Timing) { t.Failed = r.failedTries() })
	}
}

// minFailedTry is the fewest bytes that a failed try can take in the plan column.
const minFailedTry = 3

func (w *writer) failedTries(tries []rollout.FailedTry) {
	w.uint(uint64(len(tries)))
	for i := range tries {
		w.name(string(tries[i].Engine))
		w.name(string(tries[i].Code))
		w.uint(millis(tries[i].Sec))
	}
}

func (r *reader) failedTries() []rollout.FailedTry {
	n := r.count(minFailedTry)
	if n == 0 {
		return nil
	}
	tries := make([]rollout.FailedTry, n)
	for i := range tries {
		tries[i].Engine = rollout.EngineID(r.name())
		tries[i].Code = rollout.Code(r.name())
		tries[i].Sec = seconds(r.uint())
	}
	return tries
}

// timing writes the timing of one turn of a journal, to the nanosecond.
func (w *writer) timing(t *rollout.Timing) {
	w.float(t.QueueSec)
	w.float(t.ExecSec)
	w.int(int64(t.Tries))
	w.failedTries(t.Failed)
}

func (r *reader) timing() rollout.Timing {
	return rollout.Timing{QueueSec: r.float(), ExecSec: r.float(), Tries: int(r.int()), Failed: r.failedTries()}
}
