// Package starvation accounts for every second that a trainer waits for a batch: when, for which step, and what the
// missing groups were doing. It is pure: a Series goes on from one look at the buffer to the next, and is kept between
// them, so that any server can continue it and nothing is counted twice or left out.
//
// A wait lasts from the moment when the trainer has nothing left to do until its batch is granted. When the step is
// completed, the trainer's own report of its wait is compared with the count. Seconds that the service missed, because
// it was down or the claim did not reach it, are added. So the seconds of a series add up to the waits of the step
// records. Start reading at Series.Next, then Cause.
package starvation

import (
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Series is the state of the account of a run's waits.
type Series struct {
	Revision int64        `json:"revision"`          // counts the looks; two looks never have the same
	To       time.Time    `json:"to"`                // end of the latest window; zero: there was none
	Since    time.Time    `json:"since"`             // since when windows follow each other without a gap
	Step     rollout.Step `json:"step"`              // first step whose wait is not over
	Record   rollout.Step `json:"record"`            // first step whose record was not compared
	Open     *Wait        `json:"open,omitempty"`    // for Step
	Counted  []Counted    `json:"counted,omitempty"` // of the steps from Record on, in their order
}

// Complete reports whether a look at a run that gives out no more batches would bring nothing new.
func (s Series) Complete(seen Seen) bool {
	return !seen.More && s.Step >= seen.Until && s.Record >= min(seen.Next, seen.Until)
}

// Wait is a wait that goes on.
type Wait struct {
	Asked  time.Time                  `json:"asked"`            // which wait: a trainer that is replaced begins another one
	Before float64                    `json:"before,omitempty"` // seconds counted for the step in earlier waits
	Silent float64                    `json:"silent,omitempty"` // seconds in which the trainer was seen to be gone
	Gone   time.Time                  `json:"gone,omitzero"`    // since when it is gone; zero: it is not
	Cause  steprecord.StarvationCause `json:"cause,omitempty"`  // at the latest look
}

// Counted is the seconds of one step by cause.
type Counted struct {
	Step rollout.Step                           `json:"step"`
	Sec  map[steprecord.StarvationCause]float64 `json:"sec"`
}

// Sum is all of a step's seconds.
func (c Counted) Sum() float64 { return stat.Sum(maps.Values(c.Sec)) }

// Seen is one look at a run's buffer.
type Seen struct {
	Now   time.Time
	Next  rollout.Step // first that is not completed
	Until rollout.Step // first that is not granted, or that was not looked at
	More  bool         // steps from Until on are granted, too
	Asked time.Time    // when the trainer asked first for the first step that is not granted; zero: not yet
	Last  time.Time    // when it asked last; zero: not recorded
	// Steps is the records of the granted steps below Until, from Series.From on. Those that Redis has lost are missing.
	Steps []steprecord.StepRecord
	// Missing says what the groups do that the open wait is for; it is asked at most once.
	Missing func() Evidence
}

// Span is seconds of one step's wait with one cause.
type Span struct {
	Step  rollout.Step
	Cause steprecord.StarvationCause
	Sec   float64
	At    time.Time // its end
	// MadeUp marks seconds that were added later: the service did not look, or only the trainer knows of them.
	MadeUp bool
}

// Prefill reports whether the span belongs to the wait before the first step, in which the buffer is filled: it is no
// starvation.
func (s Span) Prefill() bool { return s.Step == 0 }

const (
	// silence is how long a trainer that asks again about once a second may be silent and still be waiting.
	silence = 10 * time.Second
	// askEvery is how far apart two of its claims may be noted while it waits.
	askEvery = 2 * time.Second
	// gap is how far two looks may lie apart and still be a series.
	gap = 10 * time.Second
	// least is the seconds that are worth a span; fewer stay to be counted.
	least = 1e-4
)

// MaxSteps bounds how many steps a look goes through; the next one goes on.
const MaxSteps = 64

// From is the first step whose record the next look needs.
func (s Series) From() rollout.Step { return max(0, min(s.Step, s.Record)-1) }

// Next continues the series with a look: the seconds that are new, and the steps whose account is closed by it.
func (s Series) Next(seen Seen) (next Series, spans []Span, closed []Counted) {
	s.Counted = slices.Clone(s.Counted)
	for i := range s.Counted {
		s.Counted[i].Sec = maps.Clone(s.Counted[i].Sec)
	}
	if s.Open != nil {
		open := *s.Open
		s.Open = &open
	}
	l := look{Series: &s, seen: seen, late: seen.Now.Sub(s.To) > gap && !s.To.IsZero()}
	if s.To.IsZero() || l.late || seen.Now.Before(s.To) {
		s.Since = seen.Now
	}
	l.endWaits()
	l.continueWait()
	l.compareRecords()
	s.Revision++
	s.To = seen.Now
	return s, l.spans, l.closed
}

// look is a Series in the making.
type look struct {
	*Series
	seen   Seen
	late   bool // the last look was long ago
	spans  []Span
	closed []Counted
}

// record is the record of a granted step.
func (l *look) record(k rollout.Step) *steprecord.StepRecord {
	for i := range l.seen.Steps {
		if l.seen.Steps[i].Step == k {
			return &l.seen.Steps[i]
		}
	}
	return nil
}

// begin is when a wait for step k began: when the trainer had asked for it and had completed the step before. One that
// is still busy does not wait.
func (l *look) begin(k rollout.Step, asked time.Time) (at time.Time, idle bool) {
	if k == 0 {
		return asked, true
	}
	before := l.record(k - 1)
	if before == nil {
		return asked, true // its record was lost
	}
	done := before.Service.CompletedAt
	if done.IsZero() {
		return asked, before.Done || l.seen.Next >= k
	}
	if done.After(asked) {
		return done, true
	}
	return asked, true
}

// endWaits counts what is left of the waits that have ended since the last look.
func (l *look) endWaits() {
	for ; l.Step < l.seen.Until; l.Step++ {
		r := l.record(l.Step)
		if r == nil {
			l.Open = nil
			continue
		}
		v := &r.Service
		begin, idle := l.begin(l.Step, v.FirstAskedAt)
		if idle && !v.FirstAskedAt.IsZero() && begin.Before(v.GrantedAt) {
			l.join(v.FirstAskedAt)
			l.endSilence(v.GrantedAt)
			left := l.Open.Before + v.GrantedAt.Sub(begin).Seconds() - l.Open.Silent - l.sum(l.Step)
			l.addEnded(r, left)
		}
		l.Open = nil
	}
}

// join makes the open wait the one that began with a claim.
func (l *look) join(asked time.Time) {
	if l.Open == nil || !l.Open.Asked.Equal(asked) {
		l.Open = &Wait{Asked: asked, Before: l.sum(l.Step)}
	}
}

// addEnded counts the rest of a wait that has ended. If it was seen a moment ago, the same cause holds for the rest. If
// it was not seen, the timeline of the group that completed the batch gives the cause.
func (l *look) addEnded(r *steprecord.StepRecord, left float64) {
	if l.Open.Cause != "" && !l.late {
		l.add(Span{Step: l.Step, Cause: l.Open.Cause, Sec: left, At: r.Service.GrantedAt})
		return
	}
	for _, part := range timeline(r, left) {
		part.MadeUp = l.late
		l.add(part)
	}
}

// continueWait counts the wait that goes on.
func (l *look) continueWait() {
	if l.seen.Asked.IsZero() || l.seen.More {
		l.Open = nil
		return
	}
	begin, idle := l.begin(l.Step, l.seen.Asked)
	if !idle {
		return
	}
	l.join(l.seen.Asked)
	upTo := l.heardUntil()
	if upTo.IsZero() {
		if l.Open.Gone.IsZero() {
			l.Open.Gone = units.Later(l.seen.Last, begin)
		}
		return
	}
	l.endSilence(l.To)
	left := l.Open.Before + upTo.Sub(begin).Seconds() - l.Open.Silent - l.sum(l.Step)
	if left < least {
		return
	}
	evidence, was := l.seen.Missing(), l.Open.Cause
	l.Open.Cause = Cause(evidence)
	if ended := coldUntil(evidence, was, l.Open.Cause); ended.Before(upTo) && !l.late {
		cold := min(left, left-upTo.Sub(ended).Seconds())
		l.add(Span{Step: l.Step, Cause: steprecord.StarvedEngineCold, Sec: cold, At: ended})
		left -= max(0, cold)
	}
	l.add(Span{Step: l.Step, Cause: l.Open.Cause, Sec: left, At: upTo, MadeUp: l.late})
}

// heardUntil is until when the trainer is known to wait; zero: it has gone. Time in which the service could not hear it
// does not count as silence, unless it had gone before.
func (l *look) heardUntil() time.Time {
	if l.seen.Last.IsZero() {
		return l.seen.Now
	}
	heard := l.seen.Last
	if l.Open.Gone.IsZero() {
		heard = units.Later(heard, l.Since)
	}
	if l.seen.Now.Sub(heard) >= silence {
		return time.Time{}
	}
	return units.Earlier(l.seen.Now, heard.Add(askEvery))
}

// endSilence leaves out of the wait the time until a moment in which the trainer was gone.
func (l *look) endSilence(until time.Time) {
	if gone := l.Open.Gone; !gone.IsZero() {
		until = units.Earlier(until, units.Later(l.To, gone))
		l.Open.Silent += max(0, until.Sub(gone).Seconds())
		l.Open.Gone = time.Time{}
	}
}

// compareRecords adds, for completed steps, the waiting time that was not counted.
func (l *look) compareRecords() {
	for ; l.Record < min(l.Step, l.seen.Next); l.Record++ {
		r := l.record(l.Record)
		if r == nil {
			l.drop(l.Record)
			continue
		}
		if !r.Done {
			return
		}
		left := l.reported(r) - l.sum(l.Record)
		at := units.Later(r.Service.GrantedAt, r.Service.FirstAskedAt)
		l.add(Span{Step: l.Record, Cause: steprecord.StarvedHandover, Sec: left, At: at, MadeUp: true})
		if c := l.find(l.Record); c != nil {
			l.closed = append(l.closed, *c)
		}
		l.drop(l.Record)
	}
}

// reported is how long the trainer says that it waited, as far as it can be so.
func (l *look) reported(r *steprecord.StepRecord) float64 {
	wait := min(r.Trainer.Phases[steprecord.PhaseWait], r.Trainer.WallSec)
	if before := l.record(r.Step - 1); r.Step > 0 && before != nil && !before.Service.CompletedAt.IsZero() {
		wait = min(wait, r.Service.CompletedAt.Sub(before.Service.CompletedAt).Seconds()+1) // clocks differ a little
	}
	return max(0, wait)
}

func (l *look) add(s Span) {
	if !(s.Sec >= least) { // nor one that is no number
		return
	}
	c := l.find(s.Step)
	if c == nil {
		l.Counted = append(l.Counted, Counted{Step: s.Step, Sec: map[steprecord.StarvationCause]float64{}})
		slices.SortFunc(l.Counted, func(a, b Counted) int { return int(a.Step - b.Step) })
		c = l.find(s.Step)
	}
	c.Sec[s.Cause] += s.Sec
	l.spans = append(l.spans, s)
}

func (l *look) find(k rollout.Step) *Counted {
	for i := range l.Counted {
		if l.Counted[i].Step == k {
			return &l.Counted[i]
		}
	}
	return nil
}

func (l *look) sum(k rollout.Step) float64 {
	if c := l.find(k); c != nil {
		return c.Sum()
	}
	return 0
}

func (l *look) drop(k rollout.Step) {
	l.Counted = slices.DeleteFunc(l.Counted, func(c Counted) bool { return c.Step == k })
}
