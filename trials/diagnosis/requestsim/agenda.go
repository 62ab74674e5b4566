package requestsim

import "container/heap"

// agenda is what is going to happen, in order of time; what happens at the same time does so in the order in which it
// was planned.
type agenda struct {
	now    float64
	no     int
	coming happenings
}

type happening struct {
	at float64
	no int
	do func()
}

func (a *agenda) after(sec float64, do func()) {
	a.no++
	heap.Push(&a.coming, happening{a.now + max(sec, 0), a.no, do})
}

// step lets the next thing happen; false: nothing is left.
func (a *agenda) step() bool {
	if len(a.coming) == 0 {
		return false
	}
	next := heap.Pop(&a.coming).(happening)
	a.now = next.at
	next.do()
	return true
}

type happenings []happening

func (h happenings) Len() int { return len(h) }
func (h happenings) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].no < h[j].no
}
func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)   { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
