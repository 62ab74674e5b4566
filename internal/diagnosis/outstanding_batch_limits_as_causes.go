package diagnosis

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
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

// bytesLimit is how many batches max_bytes has room for: as many as were outstanding at the claims, if bytes keep the
// run from launching more; otherwise no bound.
func (m *measurements) bytesLimit() int {
	batches, ok := m.outstandingAtClaims()
	// Where the run does not say what holds it back, bytes do if nothing else admits so few.
	unsaid := m.in.Throttle == "" && m.in.Spec.Buffer.MaxBytes > 0 &&
		batches < (1-moved)*float64(min(m.setDepth(), m.stalenessLimit()))
	if m.in.Throttle != runstatus.ThrottleBytes && !unsaid {
		return runspec.MaxDepth
	}
	if ok {
		return int(math.Round(batches))
	}
	return runspec.MaxDepth
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

// throttle weighs what keeps the run from having as many batches outstanding as its depth asks for.
func (p *predictions) throttle(m *measurements, reg *regime, e effect) (Cause, bool) {
	b := m.in.Spec.Buffer
	set, admitted := m.setDepth(), m.stalenessLimit()
	had, known := m.outstandingAtClaims()
	deeper := change{depth: set, admitted: set}
	missing := known && had < (1-moved)*float64(min(set, max(1, admitted)))
	switch {
	case b.OnStale != runspec.KeepStale && b.MaxStaleness == 0:
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
	if m.in.Spec.Buffer.OnStale != runspec.WaitStale {
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
