package diagnosis

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/changepoint"
	"github.com/millrace/millrace/internal/rollout"
)

// Input is everything that is known about a run.
type Input struct {
	Spec    rollout.Spec
	Over    bool                 // nothing of it can be changed any more
	Records []rollout.StepRecord // in any order; those not done are ignored
	Events  []Event              // what was done to the run and its fleet, in order of time
	// Loads are the adapter loads on engines; nil means that they were not recorded.
	Loads []AdapterLoad
	// Drops are the groups that were not trained on, in order of time.
	Drops []Drop
	// Departures is how the run's groups left so far.
	Departures []rollout.LengthCount
	// Signal is how many of the latest groups say something to a trainer, and Throttle what keeps the run from
	// launching as many groups as its depth asks for, both as the run told last.
	Signal   rollout.Signal
	Throttle rollout.Throttle
	Signals  []SignalChange // in order of time
	// Alarms are what keeps the games from being played now, the gravest first.
	Alarms []rollout.Alarm
	// MinEffect is the relative change of the step time that counts; 0 means 10 %.
	MinEffect float64
	// Seed draws the resampled groups of the what-ifs' intervals.
	Seed uint64
}

// AdapterLoad is one load of one adapter on one engine. At is its end.
type AdapterLoad struct {
	At     time.Time
	Engine rollout.EngineID
	Sec    float64
}

// inquiry is a diagnosis in progress: what was read and measured so far.
type inquiry struct {
	in      Input
	ledger  ledger
	levels  []stretch
	now     []int // positions of the steps that show the run as it is now
	starve  *Starvation
	cycle   *Oscillation
	fleet   fleetMeans // over now
	account account
	prompt  bool    // groups queue for nothing
	delay   float64 // seconds that every group pays on its way
	regime  Regime
}

// Diagnose reads the records of a run. The same input gives the same report.
func Diagnose(in Input) Report {
	q := inquiry{in: in, ledger: newLedger(in.Records)}
	r := Report{
		Run: in.Spec.Name, Steps: len(q.ledger.steps), Findings: []Finding{}, Levels: []Level{}, Shifts: []Shift{},
		SlowSteps: []SlowStep{}, WhatIfs: []WhatIf{}, Causes: []Cause{}, Missing: []string{}, Next: []string{},
		Notes: append([]string{}, q.ledger.notes...), Regime: Regime{Kind: NoRegime, Evidence: []Evidence{}},
	}
	if len(q.ledger.steps) == 0 {
		r.Verdict, r.Summary = VerdictNoAnswer, "No step is complete yet."
		r.Missing = append(r.Missing, "completed steps")
		r.Next = append(r.Next, "millrace run watch "+string(in.Spec.Name))
		q.alarms(&r)
		return r
	}
	q.readSteps(&r)
	q.readRegime(&r)
	q.readReplay(&r)
	r.Causes = q.causes(&r)
	q.conclude(&r)
	q.alarms(&r)
	return r
}

// readSteps finds levels, slow steps, cycles and starvation.
func (q *inquiry) readSteps(r *Report) {
	l := &q.ledger
	n := len(l.steps)
	r.From, r.To = l.steps[0].no, l.steps[n-1].no
	if first := l.all[0]; first.no == 0 {
		r.Prefill = &Prefill{WaitSec: first.prefill, ReadyDepth: first.view().ReadyDepth}
	}
	// A series too short for the detector is one level; starvation is measured all the same.
	found, _ := changepoint.Detect(l.walls(), changepoint.Options{MinEffect: q.in.MinEffect, Settle: true})
	q.levels = l.stretches(found)
	q.in.Events = withRestarts(l, q.in.Events)
	for _, s := range q.levels {
		r.Levels = append(r.Levels, l.levelOf(s))
	}
	r.Shifts = l.shiftsOf(found, q.levels, q.in.Events)
	r.Rise = l.riseOf(r.Shifts, q.levels)
	r.SlowSteps = l.slowStepsOf(found, q.levels)
	last := q.levels[len(q.levels)-1]
	if c, ok := changepoint.Oscillates(l.walls()[last.from:last.to], changepoint.Options{MinEffect: q.in.MinEffect}); ok {
		q.cycle = &Oscillation{Period: c.Period, LowSec: c.Low, HighSec: c.High, MeanSec: c.Mean}
		r.Oscillation = q.cycle
		r.SlowSteps = slices.DeleteFunc(r.SlowSteps, func(s SlowStep) bool { return s.Step >= l.steps[last.from].no })
	}
	q.starve = l.starvation(max(3, 2*q.setDepth()))
	r.Starvation = q.starve
	q.now = q.present(last)
}

// present picks the steps that show the run as it is now: the usual steps of the last level, of
// those the starved ones when starvation lasts, and whole cycles when it oscillates.
func (q *inquiry) present(last stretch) []int {
	now := last.usual
	if s := q.starve; s != nil && s.Until == nil {
		from, _ := slices.BinarySearchFunc(q.ledger.steps, s.Since, func(st step, no rollout.Step) int { return int(st.no - no) })
		if later := slices.DeleteFunc(slices.Clone(now), func(i int) bool { return i < from }); len(later) > 0 {
			now = later
		} else {
			now = all(from, last.to)
		}
	}
	if q.cycle != nil && len(now) >= q.cycle.Period {
		now = now[len(now)%q.cycle.Period:]
	}
	return now
}

// starving reports whether the trainer waits now, and enough to matter.
func (q *inquiry) starving() bool {
	return q.starve != nil && q.starve.Until == nil && q.starve.Share >= minWaitShare
}

// minWaitShare is the share of the step time that a trainer may wait without anyone caring.
const minWaitShare = 0.05

// withRestarts adds the trainer's restarts, which the records show by their epoch.
func withRestarts(l *ledger, events []Event) []Event {
	out := slices.Clone(events)
	for i := 1; i < len(l.all); i++ {
		before, s := l.all[i-1].rec.Epoch, &l.all[i]
		if s.rec.Epoch > before && before > 0 {
			out = append(out, Event{s.view().FirstAskedAt, EventTrainer, "another trainer process took over"})
		}
	}
	slices.SortStableFunc(out, func(a, b Event) int { return a.At.Compare(b.At) })
	return out
}
