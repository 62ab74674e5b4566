package runstatus

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// LoadProbe is an experiment on a run while it goes on: its requests in flight are held to a limit for a few steps, to
// see whether its engines generate as many tokens per second with fewer. The run's spec
// stays as it is. The limit is taken back when the last of the steps is claimed, when an operator says so or when the
// time is over, whichever comes first.
type LoadProbe struct {
	Limit     int          `json:"max_in_flight_per_engine"` // while it lasts
	FirstStep rollout.Step `json:"first_step"`               // the first that the run waits for under the limit throughout
	LastStep  rollout.Step `json:"last_step"`                // the limit is taken back when this one is claimed
	Since     time.Time    `json:"since"`
	Until     time.Time    `json:"until"` // at the latest
}

// LoadProbeRequest asks for a load probe, or for the end of the one under way.
type LoadProbeRequest struct {
	Limit int           `json:"limit,omitempty"` // requests in flight per engine while it lasts
	Steps int           `json:"steps,omitempty"` // whose batches are played under it, from the claim before theirs on
	For   time.Duration `json:"for,omitempty"`   // at most, should the trainer not go on
	End   bool          `json:"end,omitempty"`   // nothing else is said then
}

// MaxInFlight is the run's own limit of requests in flight per engine now; 0 leaves it to the engines.
func (s RunStatus) MaxInFlight() int {
	own := s.Spec.Dispatch.MaxInFlightPerEngine
	if p := s.LoadProbe; p != nil && (own == 0 || p.Limit < own) {
		return p.Limit
	}
	return own
}
