package diagnosis

import (
	"fmt"

	"github.com/millrace/millrace/internal/units"
)

// ownPhases is the trainer's own part of a jump.
func ownPhases(_ *measurements, _ *regime, e effect) (Cause, bool) {
	if e.jump == nil {
		return Cause{}, false
	}
	own := e.jump.DeltaSec - e.jump.Phases[waitAt].DeltaSec
	text := fmt.Sprintf("its own phases changed by %s", units.SignedSeconds(own))
	return decided(CauseTrainer, e.weigh(own), text, Measured), true
}

func refLogprobs(m *measurements, _ *regime, e effect) (Cause, bool) {
	return phaseCause(m, e, CauseRefLogprobs, refAt)
}

func checkpoints(m *measurements, _ *regime, e effect) (Cause, bool) {
	return phaseCause(m, e, CauseCheckpoint, checkpointAt)
}

// phaseCause weighs by how much one phase grew.
func phaseCause(m *measurements, e effect, name CauseName, phase int) (Cause, bool) {
	if len(e.before) == 0 {
		return Cause{}, false
	}
	before, after := m.mean(e.before, phaseSec(phase)), m.mean(e.after, phaseSec(phase))
	text := fmt.Sprintf("took %s before and %s after", units.Seconds(before), units.Seconds(after))
	return decided(name, e.weigh(after-before), text, Measured), true
}
