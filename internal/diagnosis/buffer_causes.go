package diagnosis

import (
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/units"
)

func prefillDrain(m *measurements, reg *regime, _ effect) (Cause, bool) {
	from, to, draining := m.bufferDrain()
	if !draining || reg.Kind != CapacityBound {
		return Cause{}, false
	}
	text := fmt.Sprintf("%.1f batches ready at step %d hid the shortage until step %d", from.ready, from.no, to.no)
	return decided(CausePrefill, Contributes, text, Measured), true
}

// throttle weighs what keeps the run from having as many batches outstanding as its depth asks for.
func (p *predictions) throttle(m *measurements, reg *regime, e effect) (Cause, bool) {
	b := m.in.Spec.Buffer
	set, admitted := m.setDepth(), m.stalenessLimit()
	had, known := m.outstandingAtClaims()
	deeper := change{depth: set, admitted: set}
	missing := known && had < (1-moved)*float64(min(set, max(1, admitted)))
	switch {
	case b.OnStale != rollout.KeepStale && b.MaxStaleness == 0:
		const text = "buffer.max_staleness is 0: the groups of a step are launched when the step before it is completed, " +
			"so that the trainer waits for all of their games"
		return decided(CauseThrottle, IsCause, text, Measured), true
	case m.bytesLimit() < min(set, admitted) && missing:
		text := fmt.Sprintf("buffer.max_bytes (%s) has room for %s batches outstanding, of the %d that the depth asks for",
			units.Bytes(b.MaxBytes), units.Number(had), set)
		return decided(CauseThrottle, e.weigh(p.gain(reg, deeper)), text, Modelled), true
	case admitted < set:
		text := fmt.Sprintf("buffer.max_staleness %d lets %d of the %d batches that the depth asks for be outstanding "+
			"while one is trained on", b.MaxStaleness, admitted, set)
		return decided(CauseThrottle, e.weigh(p.gain(reg, deeper)), text, Modelled), true
	case missing:
		text := fmt.Sprintf("%s batches were outstanding at the claims, of %d; what held the others back was not recorded",
			units.Number(had), set)
		return decided(CauseThrottle, Undecided, text, Measured), true
	}
	return Cause{}, false
}

// staleWait is the trainer waiting for games that would become too stale, though a batch's worth of groups is
// ready. Nothing else keeps a batch that is complete: more ready groups than it takes are the mark of it.
func staleWait(m *measurements, _ *regime, e effect) (Cause, bool) {
	if m.in.Spec.Buffer.OnStale != rollout.WaitStale {
		return Cause{}, false
	}
	held := 0
	sec := m.mean(e.after, func(s *step) float64 {
		v := s.view()
		if v.GroupsPerStep == 0 || v.AtClaim.Ready <= int64(v.GroupsPerStep) || s.wait() <= starvedShare*s.compute() {
			return 0
		}
		held++
		return s.wait()
	})
	text := fmt.Sprintf("%d of %d batches were held for games that would have become too stale, though enough groups "+
		"were ready (buffer.on_stale: wait, max_staleness %d)", held, len(e.after), m.in.Spec.Buffer.MaxStaleness)
	return decided(CauseStaleWait, e.weigh(sec), text, Measured), true
}
