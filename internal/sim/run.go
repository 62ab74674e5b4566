package sim

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/sim/serving"
)

// Options are what a simulation is told beside its setup.
type Options struct {
	// Progress, if set, hears of every completed step.
	Progress func(step rollout.Step, now time.Duration)
	// MaxSteps ends the simulation when so many steps are completed; 0: the spec's.
	MaxSteps int
}

// Result is what a simulated run leaves: what diagnosis reads of a live one, and sums.
type Result struct {
	Input  diagnosis.Input
	Status rollout.RunStatus
	Wall   time.Duration // from the start of the run to the end of its last step
	Totals serving.Totals
	Games  int64 // finished
	// Trained is the tokens that were trained on: prompts and completions of claimed groups.
	Trained int64
}

// Run plays a setup to its end, in virtual time. The same setup gives the same result, to the last bit.
func Run(ctx context.Context, s Setup, o Options) (Result, error) {
	panic("not built yet")
}
