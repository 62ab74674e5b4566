package worker

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/millrace/millrace/internal/control/gameslots"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/worker/memorylimit"
)

// slotsUnknown is how many slots a worker has where it is not known how much memory it may use.
const slotsUnknown = 1000

// chooseSlots is how many games a worker plays at a time, and why: as many as it was told, or as fit into its memory.
func chooseSlots(configured int) (slots int, from string) {
	if configured > 0 {
		return configured, "worker.games"
	}
	memory, known := memorylimit.Find(os.DirFS("/"), debug.SetMemoryLimit(-1))
	if !known {
		return slotsUnknown, "the default where memory is not known"
	}
	return gameslots.Fitting(memory.Bytes, memory.Shared), fmt.Sprintf("%s, %s", units.Bytes(memory.Bytes), memory.From)
}
