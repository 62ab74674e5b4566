package fleet

import (
	"fmt"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// SlotNotes names the engines that cannot hold as many adapters in a batch as a run may use at once: their requests
// would then wait for each other's adapters. Engines that do not say are not named.
func SlotNotes(engines []enginestate.Engine, slots int) []string {
	var notes []string
	for _, e := range engines {
		if e.AdapterSlots > 0 && e.AdapterSlots < slots {
			notes = append(notes, fmt.Sprintf("engine %s holds %d adapters in a batch; this run may use %d at once "+
				"(buffer.max_staleness + 2, its fixed policies, and league.slots): start it with --max-loras %d",
				e.ID, e.AdapterSlots, slots, slots))
		}
	}
	return notes
}
