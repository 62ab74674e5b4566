package virtualtime

import "time"

// planned is an event in the queue. What it is ordered by lies in the queue itself, so that comparing two events
// follows no pointer.
type planned struct {
	at    time.Duration
	order uint64 // class, then sequence
	timer *Timer
}

// classShift leaves room for 2^56 events: thousands of years of simulating.
const classShift = 56

func (p *planned) before(o *planned) bool {
	return p.at < o.at || p.at == o.at && p.order < o.order
}

// eventQueue is a heap in which every entry has four children: half as deep as one with two. Timers know their places.
type eventQueue []planned

const children = 4

// up puts p at place i, or nearer to the head if it goes before what is there; it reports whether it did.
func (q eventQueue) up(i int, p planned) bool {
	from := i
	for i > 0 {
		parent := (i - 1) / children
		if !p.before(&q[parent]) {
			break
		}
		q[i] = q[parent]
		q[i].timer.place = i
		i = parent
	}
	q[i] = p
	p.timer.place = i
	return i != from
}

// down puts p at place i, or farther from the head.
func (q eventQueue) down(i int, p planned) {
	for {
		first := children*i + 1
		if first >= len(q) {
			break
		}
		least := first
		for c := first + 1; c < min(first+children, len(q)); c++ {
			if q[c].before(&q[least]) {
				least = c
			}
		}
		if !q[least].before(&p) {
			break
		}
		q[i] = q[least]
		q[i].timer.place = i
		i = least
	}
	q[i] = p
	p.timer.place = i
}

// fix puts p in the place of the entry at i, or where it belongs by now.
func (q eventQueue) fix(i int, p planned) {
	if !q.up(i, p) {
		q.down(i, p)
	}
}

func (q *eventQueue) remove(i int) {
	old := *q
	old[i].timer.place = -1
	last := len(old) - 1
	moved := old[last]
	old[last] = planned{}
	*q = old[:last]
	if i < last {
		q.fix(i, moved)
	}
}
