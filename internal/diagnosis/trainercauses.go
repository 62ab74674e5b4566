package diagnosis

import (
	"fmt"

	"github.com/millrace/millrace/internal/units"
)

// ownPhases is the trainer's own part of a jump.
func (q *inquiry) ownPhases(r *Report, e effect) (Cause, bool) {
	if e.what != "jump" {
		return Cause{}, false
	}
	own := r.Rise.DeltaSec - r.Rise.Phases[waitAt].DeltaSec
	return Cause{CauseTrainer, e.weigh(own), fmt.Sprintf("its own phases changed by %s", units.SignedSeconds(own)), Measured}, true
}

func (q *inquiry) refLogprobs(_ *Report, e effect) (Cause, bool) {
	of := func(s *step) float64 { return s.phases[refAt] }
	before, after := q.ledger.mean(e.before, of), q.ledger.mean(e.after, of)
	if len(e.before) == 0 {
		return Cause{}, false
	}
	return Cause{CauseRefLogprobs, e.weigh(after - before),
		fmt.Sprintf("took %s before and %s after", units.Seconds(before), units.Seconds(after)), Measured}, true
}

func (q *inquiry) checkpoints(_ *Report, e effect) (Cause, bool) {
	of := func(s *step) float64 { return s.phases[checkpointAt] }
	before, after := q.ledger.mean(e.before, of), q.ledger.mean(e.after, of)
	if len(e.before) == 0 {
		return Cause{}, false
	}
	return Cause{CauseCheckpoint, e.weigh(after - before),
		fmt.Sprintf("took %s before and %s after", units.Seconds(before), units.Seconds(after)), Measured}, true
}
