package seed003

// event is an arrival, or an engine that is done.
type event struct {
	at      float64
	request int
	engine  int // -1: an arrival
	seq     int
}

// eventHeap is a binary heap as Python's heapq keeps it, step by step: when only times are compared, which of two
// events of the same moment comes first depends on how the heap is kept.
type eventHeap struct {
	inOrder bool
	pushed  int
	events  []event
}

func (h *eventHeap) len() int { return len(h.events) }

func (h *eventHeap) less(a, b event) bool {
	return a.at < b.at || h.inOrder && a.at == b.at && a.seq < b.seq
}

func (h *eventHeap) push(ev event) {
	ev.seq = h.pushed
	h.pushed++
	h.events = append(h.events, ev)
	h.rise(len(h.events) - 1)
}

// rise moves an event up until its parent is not later.
func (h *eventHeap) rise(at int) {
	ev := h.events[at]
	for at > 0 {
		parent := (at - 1) / 2
		if !h.less(ev, h.events[parent]) {
			break
		}
		h.events[at] = h.events[parent]
		at = parent
	}
	h.events[at] = ev
}

// pop takes the first event: the last one takes its place, sinks to a leaf along the earlier children, the right one of
// equals, and rises from there.
func (h *eventHeap) pop() event {
	last := h.events[len(h.events)-1]
	h.events = h.events[:len(h.events)-1]
	n := len(h.events)
	if n == 0 {
		return last
	}
	first := h.events[0]
	at := 0
	for child := 1; child < n; child = 2*at + 1 {
		if right := child + 1; right < n && !h.less(h.events[child], h.events[right]) {
			child = right
		}
		h.events[at] = h.events[child]
		at = child
	}
	h.events[at] = last
	h.rise(at)
	return first
}
