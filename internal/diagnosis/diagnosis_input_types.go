package diagnosis

import (
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Input is everything that is known about a run.
type Input struct {
	Spec    runspec.Spec
	Over    bool                    // it cannot be changed any more
	Records []steprecord.StepRecord // in any order; those not done are ignored
	Events  []Event                 // what was done to the run and its fleet, in order of time
	// Loads are the adapter loads on engines; nil means that they were not recorded.
	Loads []AdapterLoad
	// AdapterSlots is the fewest adapters that an engine of the fleet has room for in a batch; 0: none tells.
	AdapterSlots int
	// Drops are the groups that were not trained on, in order of time.
	Drops []Drop
	// Departures is how the run's groups left so far.
	Departures []steprecord.LengthCount
	// Signal is how many of the latest groups have any variance of their rewards, and Throttle what keeps the run from
	// launching as many groups as its depth asks for, both as the run last said.
	RewardVariance        runstatus.RewardVariance
	Throttle              runstatus.Throttle
	RewardVarianceChanges []RewardVarianceChange // in order of time
	// Alarms are what stops the games now, the gravest first.
	Alarms []runstatus.Alarm
	// ScalingActs are scaling's decisions in order of time, and Scaling its present state; nil: it is not scaled.
	ScalingActs []ScalingAct
	Scaling     *ScalingNow
	// First and Last, if set, bound the steps that are asked about, both included.
	First, Last *rollout.Step
	// Older is the summary of the steps before Records, if there is one.
	Older *Older
	// NotLookedAt describes records that could not be read.
	NotLookedAt []string

	// recorded is the records before those that were not asked about were left out; nil: none were.
	recorded []steprecord.StepRecord
}

// AdapterLoad is one load of one adapter on one engine. At is its end.
type AdapterLoad struct {
	At     time.Time
	Engine rollout.EngineID
	Sec    float64
}

// Drop is one group that was not trained on.
type Drop struct {
	At   time.Time
	Code rollout.Code
}

// RewardVarianceChange is the moment at which most groups ceased to have any variance of their rewards, or had some
// again.
type RewardVarianceChange struct {
	At             time.Time
	RewardVariance runstatus.RewardVariance
}

// KindOfChange tells what an operator did from what a run notes of itself.
func KindOfChange(change string) EventKind {
	for part := range strings.SplitSeq(change, "; ") {
		switch verb, _, _ := strings.Cut(part, " "); verb {
		case "start", "set", "pause", "resume", "stop":
			return EventConfig
		}
	}
	return EventOther
}
