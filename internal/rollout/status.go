package rollout

import "time"

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
	ID        RunName   `json:"id,omitempty"`
	Spec      Spec      `json:"spec"`
	State     RunState  `json:"state"`
	Reason    string    `json:"reason,omitempty"` // why paused, stopped or failed
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	// DeletesAt is when a run that is over is deleted, where the service has a retention; only the API's answers
	// have it.
	DeletesAt     time.Time     `json:"deletes_at,omitzero"`
	NextStep      Step          `json:"next_step"` // first step not completed
	PolicyVersion PolicyVersion `json:"policy_version"`
	Policies      []Policy      `json:"policies"` // published versions still served, oldest first
	Launched      int64         `json:"launched"` // groups, ever
	// groups queued, in flight or ready, by the workflow's account
	Outstanding int64          `json:"outstanding"`
	Failures    map[Code]int64 `json:"failures,omitempty"` // groups given up, by code
	// Throttle is what keeps the run from launching as many groups as its depth asks for; empty: nothing does.
	Throttle Throttle `json:"throttle,omitempty"`
	// RewardVariance is how many of the latest groups say something to a trainer.
	RewardVariance RewardVariance `json:"signal,omitzero"`
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
	Groups       int  `json:"groups"` // looked at: the latest 32 at most
	ZeroVariance int  `json:"flat"`   // of these, without variance
	Collapsed    bool `json:"collapsed,omitempty"`
}

// Policy is one published version of the weights.
type Policy struct {
	Version     PolicyVersion        `json:"version"`
	Adapter     string               `json:"adapter"`
	Path        string               `json:"path"`
	Digest      string               `json:"digest,omitempty"`
	State       PolicyState          `json:"state"`
	Reason      string               `json:"reason,omitempty"`
	PublishedAt time.Time            `json:"published_at"`
	LoadSec     map[EngineID]float64 `json:"load_seconds,omitempty"`
	Notes       []string             `json:"notes,omitempty"` // what could not be checked, or will be in the way later
}

// PolicyState is how far a publication has come.
type PolicyState string

// The policy states.
const (
	PolicyLoading  PolicyState = "loading"
	PolicyServing  PolicyState = "serving"
	PolicyRejected PolicyState = "rejected"
	PolicyRetired  PolicyState = "retired"
)

// EngineState is where an engine is in its life in the fleet.
type EngineState string

// The engine states. Only a ready engine is given requests.
const (
	EngineJoining     EngineState = "joining" // probed: health, version, models, one canary completion
	EngineLoading     EngineState = "loading" // loads the adapters in use
	EngineReady       EngineState = "ready"
	EngineDraining    EngineState = "draining"    // finishes what it has
	EngineQuarantined EngineState = "quarantined" // answers, but makes no completions; tried with one canary at a time
	EngineLost        EngineState = "lost"        // not answering; probed until it comes back
)

// Engine is one vLLM server of the fleet.
type Engine struct {
	ID  EngineID `json:"id"`
	URL string   `json:"url"` // http://host:port, without /v1
	// the list that names it; empty: an operator or the configuration did
	Source      string      `json:"source,omitempty"`
	State       EngineState `json:"state"`
	Reason      string      `json:"reason,omitempty"` // of the state
	Since       time.Time   `json:"since"`
	MaxInFlight int         `json:"max_in_flight"`      // requests, over all workers
	Slow        string      `json:"slow,omitempty"`     // how it lags behind the fleet; empty: it does not. See Limit
	Recalled    bool        `json:"recalled,omitempty"` // what it has is dispatched elsewhere
	Models      []string    `json:"models,omitempty"`   // base models served
	Adapters    []string    `json:"adapters,omitempty"` // as verified by /v1/models
	// Troubles are adapters that it should serve and cannot, and those whose files have changed, by name, with the
	// reason. The engine is ready for everything else.
	Troubles map[string]string `json:"troubles,omitempty"`
	// AdapterSlots is how many adapters fit into one of its batches (--max-loras); 0: it does not tell.
	AdapterSlots int        `json:"adapter_slots,omitempty"`
	Version      string     `json:"version,omitempty"` // of the engine's software
	Load         EngineLoad `json:"load"`
	// Closures is which workers do not dispatch to it, and why. Only answers of the API tell.
	Closures []Closure `json:"closures,omitempty"`
}

// Limit is how many requests the engine is given at most: half as many as it may have while it is slow.
func (e Engine) Limit() int {
	if e.Slow == "" {
		return e.MaxInFlight
	}
	return max(1, e.MaxInFlight/2)
}

// EngineLoad is the latest sample of an engine's own metrics.
type EngineLoad struct {
	At time.Time `json:"at,omitzero"`
	// LifeAt is the keeper's latest sign of life: the engine's token counter moved, or it answered a canary.
	LifeAt         time.Time `json:"life_at,omitzero"`
	Running        float64   `json:"running"`
	Waiting        float64   `json:"waiting"`
	KVUsage        float64   `json:"kv_usage"`  // 0..1
	InputTPS       float64   `json:"input_tps"` // counter difference over WindowSec
	OutputTPS      float64   `json:"output_tps"`
	WindowSec      float64   `json:"window_seconds"`
	PrefixHitShare float64   `json:"prefix_hit_share"` // 0..1, over the window
	// requests thrown out of the batch for lack of memory, in the window
	Preemptions float64 `json:"preemptions"`
	// mean wait in dispatch queues of the requests answered in the window
	QueueSec float64 `json:"queue_seconds"`

	// UsageInputError and UsageOutputError are the engine's counted tokens less those that its answers to workers
	// account for, as a share of the larger: above 0 the engine did more than the workers were answered. They speak
	// for the latest UsageWindowSec, in which the engine was not restarted; where that is 0, nothing is known.
	UsageInputError  float64 `json:"usage_input_error"`
	UsageOutputError float64 `json:"usage_output_error"`
	UsageWindowSec   float64 `json:"usage_window_seconds"`
}
