package diagnosis

import "math"

// condition is one thing by which one stretch of a run may differ from another.
type condition int

// The conditions. The step time of a run follows from them: see stepModel.
const (
	// Seconds of the trainer's phases, per step.
	condLoad condition = iota
	condRef
	condTrain
	condPublish
	condCheckpoint
	condOther

	condHandover   // seconds from a batch being ready to the trainer having it
	condGroups     // groups in a batch
	condPlayed     // groups played for each one trained on
	condGames      // games of a group
	condRetries    // tokens generated for each one that was needed
	condRequests   // requests of a game
	condPrompt     // prompt tokens of a request
	condUncached   // share of the prompt tokens that no cache held
	condCompletion // completion tokens of a request
	condEnv        // seconds of a game inside the environment
	condWithin     // slowest game of a group, for a typical one of 1
	condBetween    // slowest group of a batch, for a typical one of 1

	condEngines // ready engines
	condLimit   // requests that an engine may have in flight
	condOthers  // requests in flight that are not this run's
	condStall   // seconds per step in which an engine loads adapters
	condMemory  // tokens that an engine's KV cache has room for
	condSpeed   // seconds per token at a given load, as a multiple of what it was
	condDepth   // batches that may be outstanding
	condPlaces  // games that workers play at a time

	condTypical    // a typical game of a group by the mean of them
	condOddGame    // share of the groups in which one game, and only one, is much slower than the others
	condOddGroup   // the same of the groups of a batch
	condRequestSec // seconds of a request at its engine. It follows from others, and is never put back by itself
	condInFlight   // requests of any run in flight at an engine; follows, too
	condAtOnce     // requests of a game at engines at once, while it has any there
	condCrowding   // the same for each request that the engine works on, those that wait inside it included; follows, too

	conditionCount
)

// conditions is the value of each condition over some steps; NaN where the records do not tell.
type conditions [conditionCount]float64

// unknownConditions tells nothing.
func unknownConditions() conditions {
	var c conditions
	for i := range c {
		c[i] = math.NaN()
	}
	return c
}

// known reports whether the records tell a condition.
func (c *conditions) known(f condition) bool { return !math.IsNaN(c[f]) }

// or is one condition, or another value where it is not known.
func (c *conditions) or(f condition, otherwise float64) float64 {
	if c.known(f) {
		return c[f]
	}
	return otherwise
}

// compute is the trainer's own time of a step.
func (c *conditions) compute() float64 {
	sum := 0.0
	for f := condLoad; f <= condOther; f++ {
		sum += c.or(f, 0)
	}
	return sum
}

// phaseConditions is the condition of each of the trainer's phases, by position in rollout.Phases.
func phaseConditions() map[int]condition {
	return map[int]condition{
		loadAt: condLoad, refAt: condRef, trainAt: condTrain, publishAt: condPublish,
		checkpointAt: condCheckpoint, otherAt: condOther,
	}
}
