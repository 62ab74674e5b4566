package runmachine

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// countFailing counts the failed groups since the last success. Cancelled groups do not count.
func (r *Run) countFailing(code rollout.Code) {
	switch code {
	case "", rollout.CodeZeroVariance:
		r.Failing = 0
	case rollout.CodeShrunk, rollout.CodeStale, rollout.CodeCancelled, rollout.CodeVanished,
		rollout.CodeLost:
	default:
		r.Failing++
	}
}

// backoff is how long a run waits between rounds whose groups all fail: a second after a whole buffer of them, and
// twice as long after each further one. What such a run asks of Temporal, workers and engines is taken from others for
// nothing.
func (r *Run) backoff() time.Duration {
	buffers := r.Failing / max(1, r.Spec.Buffer.Outstanding())
	if buffers == 0 {
		return 0
	}
	return min(mostBackoff, time.Second<<min(buffers-1, 10))
}
