package seed003

import "container/heap"

// event is an arrival, or an engine that is done.
type event struct {
	at      float64
	request int
	engine  int // -1: an arrival
	seq     int // in which order they were put there
}

// put puts an event where it belongs in time; those of the same moment come in the order in which they were put there.
func (p *player) put(ev event) {
	ev.seq = p.pushed
	p.pushed++
	heap.Push(&p.events, ev)
}

// events is a heap by time.
type events []event

func (e events) Len() int { return len(e) }

func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}

func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push and Pop are heap's.
func (e *events) Push(ev any) { *e = append(*e, ev.(event)) }

// Pop takes the last one.
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
