package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// flaps counts how often a ready engine was lost or restarted. Each time its requests begin again elsewhere, so that an
// engine which does little else costs more than it brings: it is quarantined when it answers again.
type flaps []time.Time

// saw takes in one look's outcome.
func (f *flaps) saw(now time.Time, was, is rollout.EngineState, cfg *KeeperConfig) {
	*f = slices.DeleteFunc(*f, func(at time.Time) bool { return now.Sub(at) >= cfg.FlapWindow })
	if was == rollout.EngineReady && (is == rollout.EngineLost || is == rollout.EngineLoading) {
		*f = append(*f, now)
	}
}

// fault is why an engine that answers again should not be believed yet, or "".
func (f flaps) fault(was, is rollout.EngineState, cfg *KeeperConfig) string {
	back := was == rollout.EngineLost || was == rollout.EngineReady && is == rollout.EngineLoading
	if !back || len(f) < cfg.Flaps {
		return ""
	}
	return fmt.Sprintf("flaps: lost or restarted %d times within %s", len(f), cfg.FlapWindow)
}
