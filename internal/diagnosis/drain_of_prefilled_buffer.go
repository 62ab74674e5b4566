package diagnosis

import (
	"math"

	"github.com/millrace/millrace/internal/rollout"
)

// readyAt is how many batches were ready when a step's was claimed.
type readyAt struct {
	no    rollout.Step
	ready float64
}

// bufferDrain is the drain of a prefill: the first step's ready depth and where it got to the
// bottom. A ready depth that falls evenly from step 0 on is the mark of a run that consumes
// faster than it produces; one that holds and then drops has another reason.
func (h *history) bufferDrain() (from, to readyAt, ok bool) {
	from = readyAt{h.steps[0].no, h.steps[0].view().ReadyDepth}
	to = from
	bottom := 0
	for i := range h.steps {
		ready := h.steps[i].view().ReadyDepth
		if ready > to.ready+0.05 { // it rises again
			break
		}
		if ready < to.ready-0.05 {
			to, bottom = readyAt{h.steps[i].no, ready}, i
		}
	}
	fall := from.ready - to.ready
	middle := h.steps[bottom/2].view().ReadyDepth
	even := bottom <= 2 || math.Abs(middle-(from.ready+to.ready)/2) <= 0.35*fall
	return from, to, fall >= 0.5 && even
}
