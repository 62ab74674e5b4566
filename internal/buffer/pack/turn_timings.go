package pack

import (
	"math"

	"github.com/millrace/millrace/internal/rollout"
)

// Where the time of each turn went stands behind all trajectories of a group, one kind of number after the other: it is
// noise, between the turns it would spoil what is alike there. It is kept to the millisecond.

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

// A journal has a turn's timing in the record of its answer, which earlier versions read and which has no room for
// more. The rest is in a record behind the one that it belongs to, and has that one's number: versions that do not know
// it take it for one that has arrived twice.

// agentTiming is the timing of an agent's answer, or of its turn of a phase.
type agentTiming struct {
	agent  string
	timing rollout.Timing
}

// timings makes the record of what the record before this one has no room for; nil: nothing.
func (w *JournalWriter) timings(of []agentTiming) []byte {
	if len(of) == 0 {
		return nil
	}
	var out writer
	out.uint(w.state.next - 1)
	out.uint(uint64(len(of)))
	for i := range of {
		t := &of[i].timing
		out.name(of[i].agent)
		out.float(t.QueueSec)
		out.float(t.ExecSec)
		out.int(int64(t.Tries))
		out.failedTries(t.Failed)
	}
	return sealRecord(recordTimings, &out)
}

// minAgentTiming is the fewest bytes that an agent's timing can take in the plan column.
const minAgentTiming = 19

// timings reads a record of timings, and gives them to what the record with that number has brought.
func (j *Journal) timings(r *reader, number uint64) {
	for range r.count(minAgentTiming) {
		var t rollout.Timing
		agent := r.name()
		t.QueueSec = r.float()
		t.ExecSec = r.float()
		t.Tries = int(r.int())
		t.Failed = r.failedTries()
		if r.err == nil && number+1 == j.state.next {
			j.time(agent, number, t)
		}
	}
}

func (j *Journal) time(agent string, number uint64, t rollout.Timing) {
	for i := range j.state.answers {
		if a := &j.state.answers[i]; a.number == number && a.Agent == agent {
			a.Completion.Timing = t
			for k := range j.Answers {
				if j.Answers[k].Agent == agent {
					j.Answers[k].Completion.Timing = t
				}
			}
			return
		}
	}
	if len(j.state.answers) > 0 || j.Checkpoint == nil {
		return
	}
	for i := range j.Checkpoint.Episode.Trajectories {
		of := &j.Checkpoint.Episode.Trajectories[i]
		if n := len(of.Turns); of.Agent == agent && n > 0 {
			of.Turns[n-1].Timing = t
		}
	}
}
