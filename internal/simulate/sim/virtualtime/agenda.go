// Package virtualtime is the clock and the chance of a simulation: an Agenda of what will happen, in an order that is
// always the same, and seeded streams of random numbers. It knows nothing of what happens.
//
// Start reading at Agenda.
package virtualtime

import "time"

// Handler is what something happens to.
type Handler interface {
	// Happen is called at the time that was asked for, with what was given then.
	Happen(now time.Duration, arg uint64)
}

// Class orders what happens at the same time: lower ones first.
type Class uint8

// Agenda is what will happen. Events are ordered by time, then class, then the order in which they were put there, so
// that a simulation with the same inputs takes the same course. It is not safe for concurrent use.
type Agenda struct {
	now    time.Duration
	last   uint64 // sequence number given out last
	queue  eventQueue
	spare  []*Timer // one-shot timers to use again
	events uint64   // that have happened
}

// Timer is one event of an agenda that can be moved. A timer that is not set never happens.
type Timer struct {
	agenda  *Agenda
	place   int // in the queue; -1: not set
	class   Class
	once    bool
	handler Handler
	arg     uint64
}

// NewAgenda is an empty agenda at time zero.
func NewAgenda() *Agenda { return &Agenda{} }

// Now is the time of the event that happens now. It never goes back.
func (a *Agenda) Now() time.Duration { return a.now }

// Events is how many events have happened.
func (a *Agenda) Events() uint64 { return a.events }

// Pending is how many events are still to happen.
func (a *Agenda) Pending() int { return len(a.queue) }

// At lets something happen once. A time in the past is now.
func (a *Agenda) At(at time.Duration, class Class, h Handler, arg uint64) {
	var t *Timer
	if n := len(a.spare); n > 0 {
		t, a.spare = a.spare[n-1], a.spare[:n-1]
	} else {
		t = &Timer{agenda: a, place: -1, once: true}
	}
	t.class, t.handler, t.arg = class, h, arg
	t.Set(at)
}

// Timer is an event that is not set yet.
func (a *Agenda) Timer(class Class, h Handler, arg uint64) *Timer {
	return &Timer{agenda: a, class: class, handler: h, arg: arg, place: -1}
}

// Set lets the timer happen at a time, and at no other: a time that was set before is forgotten. A time in the past is
// now. Setting the time that is set already changes nothing, not even the timer's turn among others of that time.
func (t *Timer) Set(at time.Duration) {
	a := t.agenda
	at = max(at, a.now)
	if t.place >= 0 && a.queue[t.place].at == at {
		return
	}
	a.last++
	p := planned{at: at, order: uint64(t.class)<<classShift | a.last, timer: t}
	if t.place < 0 {
		a.queue = append(a.queue, p)
		a.queue.up(len(a.queue)-1, p)
		return
	}
	a.queue.fix(t.place, p)
}

// Stop lets the timer not happen.
func (t *Timer) Stop() {
	if t.place >= 0 {
		t.agenda.queue.remove(t.place)
	}
}

// Pending reports whether the timer is set, and for when.
func (t *Timer) Pending() (at time.Duration, ok bool) {
	if t.place < 0 {
		return 0, false
	}
	return t.agenda.queue[t.place].at, true
}

// Step lets the next event happen; false: there is none.
func (a *Agenda) Step() bool {
	if len(a.queue) == 0 {
		return false
	}
	first := a.queue[0]
	t := first.timer
	a.queue.remove(0)
	a.now = first.at
	a.events++
	handler, arg := t.handler, t.arg
	if t.once {
		t.handler = nil
		a.spare = append(a.spare, t)
	}
	handler.Happen(a.now, arg)
	return true
}

// Next is when the next event happens; false: there is none.
func (a *Agenda) Next() (at time.Duration, ok bool) {
	if len(a.queue) == 0 {
		return 0, false
	}
	return a.queue[0].at, true
}
