package workflows

import (
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

// TestRefusalsComeThroughTemporal: what a run's workflow refuses reaches the caller as the same refusal. One that does
// not is a fault of the server to a trainer, which ends of it.
func TestRefusalsComeThroughTemporal(t *testing.T) {
	t.Parallel()
	for _, code := range []rollout.RefusalCode{rollout.Conflict, rollout.Fenced, rollout.Invalid, rollout.NotScaled,
		rollout.OutOfOrder, rollout.RunOver, rollout.Unavailable} {
		err := refused(refusal(rollout.Refuse(code, "why")))
		if !rollout.Refused(err, code) {
			t.Errorf("%s became %v", code, err)
		}
	}
}
