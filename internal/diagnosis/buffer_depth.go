package diagnosis

import (
	"math"

	"github.com/millrace/millrace/internal/rollout"
)

// setDepth is the run's buffer depth at its last step, as it was set.
func (m *measurements) setDepth() int {
	if d := m.steps[len(m.steps)-1].view().Depth; d > 0 {
		return d
	}
	return max(1, m.in.Spec.Buffer.Depth)
}

// depth is the batches that the run really has outstanding while the trainer works: its depth as set, unless a
// bound admits fewer.
func (m *measurements) depth() int {
	return max(1, min(m.setDepth(), m.stalenessLimit(), m.bytesLimit()))
}

// stalenessLimit is the batches that max_staleness lets be outstanding while the trainer works on one.
func (m *measurements) stalenessLimit() int { return m.in.Spec.Buffer.AdmittedSteps(1) }

// bytesLimit is the batches for which max_bytes had room: as many as were outstanding at the claims, when bytes are
// what keeps the run from launching more; no bound otherwise.
func (m *measurements) bytesLimit() int {
	batches, ok := m.outstandingAtClaims()
	// Where the run does not say what holds it back, bytes do if nothing else admits so few.
	unsaid := m.in.Throttle == "" && m.in.Spec.Buffer.MaxBytes > 0 &&
		batches < (1-moved)*float64(min(m.setDepth(), m.stalenessLimit()))
	if m.in.Throttle != rollout.ThrottleBytes && !unsaid {
		return rollout.MaxDepth
	}
	if ok {
		return int(math.Round(batches))
	}
	return rollout.MaxDepth
}

// outstandingAtClaims is the batches outstanding just before the claims, the one to be claimed included: the depth,
// when nothing keeps the run from launching. The run's last steps, which need no more batches, say nothing.
func (m *measurements) outstandingAtClaims() (float64, bool) {
	sum, n := 0.0, 0.0
	for _, i := range m.present {
		s := &m.steps[i]
		v := s.view()
		counts := v.AtClaim.Queued + v.AtClaim.InFlight + v.AtClaim.Ready
		if v.GroupsPerStep == 0 || counts == 0 || m.in.Spec.Steps > 0 && int(s.no)+v.Depth > m.in.Spec.Steps {
			continue
		}
		sum += float64(counts) / float64(v.GroupsPerStep)
		n++
	}
	return sum / max(1, n), n > 0
}

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
