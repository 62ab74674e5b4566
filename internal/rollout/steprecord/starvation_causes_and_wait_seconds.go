package steprecord

import (
	"maps"

	"github.com/millrace/millrace/internal/kit/stat"
)

// StarvationCause is what a trainer's missing groups are doing while it waits for its batch: one word for each second
// of a wait, in the series of starvation, in metrics and in step records alike.
type StarvationCause string

// The causes. A second has the one of the group that will complete the batch.
const (
	// StarvedGated: the run has not launched it. It is paused, or a bound or its depth allows no more groups.
	StarvedGated StarvationCause = "gated"
	// StarvedQueue: it is launched and no worker has a slot for its games, or its requests wait for a place at an engine.
	StarvedQueue StarvationCause = "queue"
	// StarvedEngineCold: engines that it needs are not ready: starting, loading, lost or quarantined.
	StarvedEngineCold StarvationCause = "engine_cold"
	// StarvedAdapterLoad: engines load the adapter that it needs.
	StarvedAdapterLoad StarvationCause = "adapter_load"
	// StarvedInference: engines generate its turns.
	StarvedInference StarvationCause = "inference"
	// StarvedEnv: its games are being played outside the engines: environment, checkpoints, commit.
	StarvedEnv StarvationCause = "env"
	// StarvedStraggler: every missing group waits for its last game, and the others are done.
	StarvedStraggler StarvationCause = "straggler"
	// StarvedHandover: it is ready, and on its way to the trainer: claims that do not reach a server, answers, polling.
	StarvedHandover StarvationCause = "handover"
	// StarvedUnknown: nothing is kept of what it did.
	StarvedUnknown StarvationCause = "unknown"
)

// WaitSec is how long the trainer waited for the step's batch: as it reported itself, but no longer than the step can
// have taken it since the step before was completed, at a time that may be zero. A trainer that reports no phases, or
// fewer seconds than the service saw, has waited as long as the service counted.
func (r StepRecord) WaitSec() float64 {
	return max(stat.Sum(maps.Values(r.Service.StarvedBy)), r.Trainer.Phases[PhaseWait])
}

// StarvedSec is WaitSec of every step but the first, whose wait is the prefill.
func (r StepRecord) StarvedSec() float64 {
	if r.Step == 0 {
		return 0
	}
	return r.WaitSec()
}
