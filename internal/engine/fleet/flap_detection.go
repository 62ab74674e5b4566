package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// flaps counts how often a ready engine was lost or restarted. Each time its requests begin again elsewhere, so that an
// engine which does little else costs more than it brings: it is quarantined when it answers again.
type flaps []time.Time

// saw takes in one look's outcome.
func (f *flaps) saw(now time.Time, was, is enginestate.EngineState, cfg *KeeperConfig) {
	*f = slices.DeleteFunc(*f, func(at time.Time) bool { return now.Sub(at) >= cfg.FlapWindow })
	if was == enginestate.EngineReady && (is == enginestate.EngineLost || is == enginestate.EngineLoading) {
		*f = append(*f, now)
	}
}

// fault is why an engine that answers again should not be believed yet, or "".
func (f flaps) fault(was, is enginestate.EngineState, cfg *KeeperConfig) string {
	back := was == enginestate.EngineLost || was == enginestate.EngineReady && is == enginestate.EngineLoading
	if !back || len(f) < cfg.Flaps {
		return ""
	}
	return fmt.Sprintf("flaps: lost or restarted %d times within %s", len(f), cfg.FlapWindow)
}
