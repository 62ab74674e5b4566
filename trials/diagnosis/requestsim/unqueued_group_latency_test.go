package requestsim_test

import (
	"math"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/trials/diagnosis/requestsim"
)

// Where slots are full, the games' latency is what they would take without waiting for one: as long as on engines that
// take all requests at once and are no faster.
func TestLatencyOfFullSlots(t *testing.T) {
	t.Parallel()
	played := func(slots int) diagnosis.Regime {
		w := sweptWorld(0)
		w.Slots = slots
		record := requestsim.Play(w).Record
		return diagnosis.Diagnose(diagnosis.Input{Spec: record.Run.Spec, Records: record.Steps[:20],
			Loads: []diagnosis.AdapterLoad{}}).Regime
	}
	free := played(512)
	for _, slots := range []int{24, 12, 6} {
		full := played(slots)
		if full.Kind != diagnosis.CapacityBound || math.Abs(full.LatencySec/free.LatencySec-1) > 0.1 {
			t.Errorf("%s with %d slots, a batch takes %.0f s; with all that are asked for %.0f s",
				full.Kind, slots, full.LatencySec, free.LatencySec)
		}
	}
}
