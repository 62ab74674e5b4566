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
	heap   []*Timer
	spare  []*Timer // one-shot timers to use again
	events uint64   // that have happened
}

// Timer is one event of an agenda that can be moved. A timer that is not set never happens.
type Timer struct {
	agenda  *Agenda
	at      time.Duration
	class   Class
	seq     uint64
	place   int // in the heap; -1: not set
	handler Handler
	arg     uint64
	once    bool
}

// NewAgenda is an empty agenda at time zero.
func NewAgenda() *Agenda { return &Agenda{} }

// Now is the time of the event that happens now. It never goes back.
func (a *Agenda) Now() time.Duration { return a.now }

// Events is how many events have happened.
func (a *Agenda) Events() uint64 { return a.events }

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
// now.
func (t *Timer) Set(at time.Duration) {
	a := t.agenda
	at = max(at, a.now)
	if t.place >= 0 && t.at == at {
		return
	}
	a.last++
	t.at, t.seq = at, a.last
	if t.place < 0 {
		t.place = len(a.heap)
		a.heap = append(a.heap, t)
		a.up(t.place)
		return
	}
	if !a.up(t.place) {
		a.down(t.place)
	}
}

// Stop lets the timer not happen.
func (t *Timer) Stop() {
	if t.place >= 0 {
		t.agenda.remove(t.place)
	}
}

// Pending reports whether the timer is set, and for when.
func (t *Timer) Pending() (at time.Duration, ok bool) { return t.at, t.place >= 0 }

// Step lets the next event happen; false: there is none.
func (a *Agenda) Step() bool {
	if len(a.heap) == 0 {
		return false
	}
	t := a.heap[0]
	a.remove(0)
	a.now = t.at
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
	if len(a.heap) == 0 {
		return 0, false
	}
	return a.heap[0].at, true
}

func (a *Agenda) before(i, j int) bool {
	x, y := a.heap[i], a.heap[j]
	if x.at != y.at {
		return x.at < y.at
	}
	if x.class != y.class {
		return x.class < y.class
	}
	return x.seq < y.seq
}

func (a *Agenda) swap(i, j int) {
	a.heap[i], a.heap[j] = a.heap[j], a.heap[i]
	a.heap[i].place, a.heap[j].place = i, j
}

// up moves an entry towards the head, and reports whether it moved.
func (a *Agenda) up(i int) bool {
	moved := false
	for i > 0 {
		parent := (i - 1) / 2
		if !a.before(i, parent) {
			break
		}
		a.swap(i, parent)
		i, moved = parent, true
	}
	return moved
}

func (a *Agenda) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(a.heap); child++ {
			if a.before(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		a.swap(i, least)
		i = least
	}
}

func (a *Agenda) remove(i int) {
	last := len(a.heap) - 1
	a.swap(i, last)
	t := a.heap[last]
	a.heap[last] = nil
	a.heap = a.heap[:last]
	t.place = -1
	if i < last && !a.up(i) {
		a.down(i)
	}
}
