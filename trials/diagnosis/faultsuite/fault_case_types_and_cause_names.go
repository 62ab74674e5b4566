// Package faultsuite tries diagnosis: it plays runs with a fault that is known, has each diagnosed, and counts how
// often the right cause is named first, whether what is advised helps when it is really done, and how often a healthy
// run is given a fault. The runs are those of package sim and of package requestsim, which shares no code with it.
//
// Start reading at Case and Try.
package faultsuite

import (
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/runrecord"
)

type causeName = diagnosis.CauseName

// Causes as the suite names them.
const (
	AdapterLoad       = diagnosis.CauseAdapterLoad
	AdapterSlots      = diagnosis.CauseAdapterSlots
	Checkpoint        = diagnosis.CauseCheckpoint
	ColdEngines       = diagnosis.CauseColdEngines
	Config            = diagnosis.CauseConfig
	Depth             = diagnosis.CauseName("depth")
	Drops             = diagnosis.CauseDrops
	EngineBack        = diagnosis.CauseName("engine_back")
	EngineLost        = diagnosis.CauseEngineLost
	EngineSlow        = diagnosis.CauseName("engine_slow")
	Environment       = diagnosis.CauseEnvironment
	Handover          = diagnosis.CauseName("handover")
	KVLimited         = diagnosis.CauseKVLimited
	Latency           = diagnosis.CauseLatency
	LongerCompletions = diagnosis.CauseName("longer_completions")
	LongerGames       = diagnosis.CauseLongerGames
	LongerPrompts     = diagnosis.CauseName("longer_prompts")
	MoreGames         = diagnosis.CauseName("more_games")
	OtherWork         = diagnosis.CauseOtherWork
	OwnLimit          = diagnosis.CauseName("own_limit")
	Periodic          = diagnosis.CausePeriodicPhase
	PrefixHits        = diagnosis.CauseName("lower_prefix_hits")
	Publish           = diagnosis.CauseName("publish")
	RefInRollouts     = diagnosis.CauseName("ref_in_rollouts")
	RefLogprobs       = diagnosis.CauseRefLogprobs
	ScaleDown         = diagnosis.CauseScaleDown
	SingleStep        = diagnosis.CauseName("single_step")
	Straggler         = diagnosis.CauseStraggler
	Throttle          = diagnosis.CauseThrottle
	Throughput        = diagnosis.CauseThroughput
	Trainer           = diagnosis.CauseTrainer
	Workers           = diagnosis.CauseWorkers
)

// Case is a run with a fault, or a healthy one.
type Case struct {
	Name     string
	Injected string
	Want     []diagnosis.CauseName // any of which must be named first; none: the run is healthy
	Play     func(scale int, seed uint64) (Played, error)
}

// Healthy reports whether there is nothing to find.
func (c Case) Healthy() bool { return len(c.Want) == 0 }

// Played is a run that was played.
type Played struct {
	Record *runrecord.Record
	Input  diagnosis.Input // of the record
	// StepSec is the step time at its end, and With what it is in a run with a change; false: that cannot be played.
	StepSec float64
	With    func(Change) (float64, bool)
}

// Change is what a diagnosis may advise, as far as it can be done in a simulation.
type Change struct {
	Engines      int // more than there were
	Depth        int // if above 0, in place of the run's
	MaxStaleness int // the same
}

// settling is for how many steps a run goes on after its record, so that what-ifs are compared with steady steps.
const settling = 40

// steadyTail is over how many steps at the end a step time is taken.
const steadyTail = 12
