package sim

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/serving"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// Options are what a simulation is told beside its setup.
type Options struct {
	// Progress, if set, hears of every completed step.
	Progress func(step rollout.Step, now time.Duration)
	// MaxSteps ends the simulation when so many steps are completed; 0: the spec's.
	MaxSteps int
	// Detail is of how many steps, the newest, groups, adapter loads and drops are kept, so that memory is bounded; 0: of
	// all.
	Detail int
	// Games, if set, are played in place of the workload's.
	Games workload.Games
	// Environment makes the environment whose games are played among bots; only such a workload needs it.
	Environment func(runspec.Environment) (episode.Environment, error)
	// NewEngine, if set, makes the engines, by their number from 0, in place of the fleet's profile.
	NewEngine func(no int) (enginemodel.Engine, error)
	// Log, if set, is told every event that the dispatcher is given, and what it commands.
	Log func(now time.Time, event dispatch.Event, commands []dispatch.Command)

	// Changes happen while the run is played.
	Changes []Change
	// Scaler, if set, decides how many engines there are, in place of the setup's number.
	Scaler Scaler

	check func(*pipeline) // sees every event, in tests
}

// Result is what a simulated run leaves: what diagnosis reads of a live one, and sums.
type Result struct {
	Input  diagnosis.Input
	Status runstatus.RunStatus
	Wall   time.Duration // from the start of the run to the end of its last step
	Totals serving.Totals
	Games  int64 // finished
	// Trained is the tokens that were trained on: prompts and completions of claimed groups.
	Trained int64
	Events  uint64 // that the simulation is made of
}

// Run plays a setup to its end, in virtual time. The same setup gives the same result, to the last bit. A simulation
// that fails or is cancelled leaves what it had come to.
func Run(ctx context.Context, s Setup, o Options) (Result, error) {
	p, err := newPipeline(s, o)
	if err != nil {
		return Result{}, err
	}
	err = p.play(ctx)
	return p.result(), err
}

// result is what the run has left so far.
func (p *pipeline) result() Result {
	in := p.input
	in.Records, in.Departures = p.trainer.records, p.buffer.Departures()
	in.Over, in.AdapterSlots = p.status.State.Over(), p.adapterSlots()
	in.RewardVariance, in.Throttle = p.status.RewardVariance, p.status.Throttle
	wall := time.Duration(0)
	if n := len(p.trainer.records); n > 0 {
		wall = p.trainer.records[n-1].Service.CompletedAt.Sub(startOfRun)
	}
	return Result{Input: in, Status: p.run.machine.Status(), Wall: wall, Totals: p.fleet.Totals(), Games: p.finished,
		Trained: p.trained, Events: p.agenda.Events()}
}
