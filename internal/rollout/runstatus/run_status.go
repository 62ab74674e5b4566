// Package runstatus is what is known of a run: its status, the mark of its account, policies, alarms, load probes. It
// holds values; package runmachine decides them, and package buffer keeps them for readers. Start reading at RunStatus.
package runstatus

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// RunState is where a run is in its life.
type RunState string

// The run states. Completed, Stopped and Failed are final; a lost run is over until it is resumed.
const (
	RunRunning   RunState = "running"
	RunPaused    RunState = "paused" // launches nothing; what is in flight finishes and may be claimed
	RunCompleted RunState = "completed"
	RunStopped   RunState = "stopped"
	RunFailed    RunState = "failed"
	RunStarting  RunState = "starting" // known, and its workflow has not said a word yet
	RunLost      RunState = "lost"     // its workflow is gone; it hands out nothing until it is resumed
)

// Over reports whether the run hands out no other step, unless it is lost and resumed.
func (s RunState) Over() bool {
	return s == RunCompleted || s == RunStopped || s == RunFailed || s == RunLost
}

// RunStatus is a run at a glance, as its workflow sees it.
type RunStatus struct {
	// ID is what the service calls the run where names that were used before must be told apart: in adapters'
	// names, events, metrics and workflow ids. It is the name, or NAME@2 and so on. Empty inside the service, where
	// Spec.Name is the id.
	ID        rollout.RunName `json:"id,omitempty"`
	Spec      runspec.Spec    `json:"spec"`
	State     RunState        `json:"state"`
	Reason    string          `json:"reason,omitempty"` // why paused, stopped or failed
	StartedAt time.Time       `json:"started_at"`
	EndedAt   time.Time       `json:"ended_at,omitzero"`
	// DeletesAt is when a run that is over is deleted, where the service has a retention; only the API's answers
	// have it.
	DeletesAt     time.Time             `json:"deletes_at,omitzero"`
	NextStep      rollout.Step          `json:"next_step"` // first step not completed
	PolicyVersion rollout.PolicyVersion `json:"policy_version"`
	Policies      []Policy              `json:"policies"` // published versions still served, oldest first
	Launched      int64                 `json:"launched"` // groups, ever
	// groups queued, in flight or ready, by the workflow's account
	Outstanding int64                  `json:"outstanding"`
	Failures    map[rollout.Code]int64 `json:"failures,omitempty"` // groups given up, by code
	// Throttle is what keeps the run from launching as many groups as its depth asks for; empty: nothing does.
	Throttle Throttle `json:"throttle,omitempty"`
	// RewardVariance is how many of the latest groups say something to a trainer.
	RewardVariance RewardVariance `json:"reward_variance,omitzero"`
	// LoadProbe is the experiment on the run's engines that is under way, if there is one.
	LoadProbe *LoadProbe `json:"load_probe,omitempty"`
	// Rollbacks is how often the buffer's Redis came back older than it was, and Rollback the latest time.
	Rollbacks int       `json:"rollbacks,omitempty"`
	Rollback  *Rollback `json:"rollback,omitempty"`
}

// Throttle is a reason to keep fewer groups outstanding than the depth asks for.
type Throttle string

// The throttles.
const (
	ThrottleStaleness Throttle = "max_staleness" // more would have to end too stale
	ThrottleBytes     Throttle = "max_bytes"     // more would not fit
	ThrottleFailures  Throttle = "failures"      // all groups fail: launches pause, longer each time
)

// Throttles is all of them.
func Throttles() []Throttle { return []Throttle{ThrottleStaleness, ThrottleBytes, ThrottleFailures} }

// RewardVariance is how many of the latest groups had rewards that differ. Collapsed is raised when most have none, and
// taken back when a third or fewer have none.
type RewardVariance struct {
	Groups       int  `json:"groups"`        // looked at: the latest 32 at most
	ZeroVariance int  `json:"zero_variance"` // of these, without variance
	Collapsed    bool `json:"collapsed,omitempty"`
}
