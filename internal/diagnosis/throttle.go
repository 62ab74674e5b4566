package diagnosis

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/units"
)

// setDepth is the run's buffer depth at its last step, as it was set.
func (q *inquiry) setDepth() int {
	if d := q.ledger.steps[len(q.ledger.steps)-1].view().Depth; d > 0 {
		return d
	}
	return max(1, q.in.Spec.Buffer.Depth)
}

// depth is the batches that the run really has outstanding while the trainer works: its depth as set, unless a
// bound admits fewer.
func (q *inquiry) depth() int { return max(1, min(q.setDepth(), q.admitted(), q.fitted())) }

// admitted is the batches that max_staleness lets be outstanding while the trainer works on one.
func (q *inquiry) admitted() int { return q.in.Spec.Buffer.AdmittedSteps(1) }

// fitted is the batches for which max_bytes had room: as many as were outstanding at the claims, when bytes are
// what keeps the run from launching more; no bound otherwise.
func (q *inquiry) fitted() int {
	if q.in.Throttle != rollout.ThrottleBytes {
		return rollout.MaxDepth
	}
	if batches, ok := q.outstanding(); ok {
		return int(math.Round(batches))
	}
	return rollout.MaxDepth
}

// outstanding is the batches outstanding just before the claims, the one to be claimed included: the depth, when
// nothing keeps the run from launching. The run's last steps, which need no more batches, say nothing.
func (q *inquiry) outstanding() (float64, bool) {
	sum, n := 0.0, 0.0
	for _, i := range q.now {
		s := &q.ledger.steps[i]
		v := s.view()
		counts := v.AtClaim.Queued + v.AtClaim.InFlight + v.AtClaim.Ready
		if v.GroupsPerStep == 0 || counts == 0 || q.in.Spec.Steps > 0 && int(s.no)+v.Depth > q.in.Spec.Steps {
			continue
		}
		sum += float64(counts) / float64(v.GroupsPerStep)
		n++
	}
	return sum / max(1, n), n > 0
}

// throttle weighs what keeps the run from having as many batches outstanding as its depth asks for.
func (q *inquiry) throttle(_ *Report, e effect) (Cause, bool) {
	b := q.in.Spec.Buffer
	set := q.setDepth()
	had, known := q.outstanding()
	missing := known && had < (1-moved)*float64(min(set, max(1, q.admitted())))
	switch {
	case b.OnStale != rollout.KeepStale && b.MaxStaleness == 0:
		return Cause{CauseThrottle, IsCause,
			"buffer.max_staleness is 0: the groups of a step are launched when the step before it is completed, so that the trainer waits for all of their games", Measured}, true
	case q.in.Throttle == rollout.ThrottleBytes && missing:
		return Cause{CauseThrottle, e.weigh(q.butForDepth(set)), fmt.Sprintf(
			"buffer.max_bytes (%s) has room for %s batches outstanding, of the %d that the depth asks for", units.Bytes(b.MaxBytes), units.Number(had), set), Measured}, true
	case q.admitted() < set:
		return Cause{CauseThrottle, e.weigh(q.butForDepth(set)), fmt.Sprintf(
			"buffer.max_staleness %d lets %d of the %d batches that the depth asks for be outstanding while one is trained on", b.MaxStaleness, q.admitted(), set), Measured}, true
	case missing:
		return Cause{CauseThrottle, Undecided, fmt.Sprintf(
			"%s batches were outstanding at the claims, of %d; what held the others back was not recorded", units.Number(had), set), Measured}, true
	}
	return Cause{}, false
}

// butForDepth is by how much a step would be shorter, by the model, if so many batches were outstanding.
func (q *inquiry) butForDepth(depth int) float64 {
	reg := q.regime
	if reg.R == nil || reg.P == nil {
		return 0
	}
	rest := max(reg.C.Sec, reg.P.Sec)
	return max(0, max(rest, reg.LatencyPD.Sec)-max(rest, reg.R.Sec/float64(depth)))
}
