package rollout

import "time"

// Checkpoint is a game after its last finished phase: what another process needs to go on with it. Its JSON is what
// the heartbeats of a warm-up carry, and leaves out the turns: those of a warm-up are nobody's.
type Checkpoint struct {
	PhaseIndex int     `json:"phase_index"` // phases finished
	Game       []byte  `json:"game"`        // as the environment saves it
	Episode    Episode `json:"-"`           // turns so far, without rewards of the end
	News       []News  `json:"-"`           // told once it is kept, and not kept with it
}

// News is what another process is told, on a channel of Redis.
type News struct{ Channel, Text string }

// Episode is one finished game: a trajectory per learner-controlled agent.
type Episode struct {
	Ref          EpisodeRef   `json:"ref"`
	Trajectories []Trajectory `json:"trajectories"`
	Phases       int          `json:"phases"`
	Truncated    bool         `json:"truncated"`
	StartedAt    time.Time    `json:"started_at"` // first request dispatched
	FinishedAt   time.Time    `json:"finished_at"`
	EnvSec       float64      `json:"env_seconds"`   // inside the environment
	ModelSec     float64      `json:"model_seconds"` // phases' critical path at engines: the slowest request of each phase
	QueueSec     float64      `json:"queue_seconds"` // phases' critical path in the dispatcher's queue
	Usage        Usage        `json:"usage"`
	Attempts     int          `json:"attempts"`
	// Counts are the environment's own, such as orders by validity, summed over the phases.
	Counts map[string]int64 `json:"counts,omitempty"`
	// Order is who ended before whom, where the environment tells it and players differ; known when the game is over.
	Order Order `json:"order,omitempty"`
}

// GroupTimes is when a group was where.
type GroupTimes struct {
	LaunchedAt time.Time `json:"launched_at"` // the run asked for it
	StartedAt  time.Time `json:"started_at"`  // its first request was dispatched
	ReadyAt    time.Time `json:"ready_at"`    // committed to the buffer
}

// Group is the episodes of one scenario, whose rewards are compared. It commits once.
type Group struct {
	Ref          GroupRef      `json:"ref"`
	MinVersion   PolicyVersion `json:"policy_version_min"`
	MaxVersion   PolicyVersion `json:"policy_version_max"`
	Samples      int           `json:"samples"` // episodes in it
	Failed       int           `json:"failed"`  // episodes that were given up
	Cancelled    int           `json:"-"`       // episodes that were cancelled because others sufficed
	Times        GroupTimes    `json:"times"`
	Usage        Usage         `json:"usage"`
	EpisodeSec   []float64     `json:"episode_seconds"`  // start to finish of each episode, by sample
	ModelSec     []float64     `json:"model_seconds"`    // Episode.ModelSec by sample
	QueueSec     []float64     `json:"queue_seconds"`    // Episode.QueueSec by sample
	EnvSec       []float64     `json:"env_seconds"`      // Episode.EnvSec by sample
	Phases       []int         `json:"phases,omitempty"` // Episode.Phases by sample
	Trajectories []Trajectory  `json:"trajectories"`
	// Counts are Episode.Counts, summed. Like Cancelled they are for the step's record, and not kept with the group.
	Counts map[string]int64 `json:"-"`
	// Orders counts the games by who ended before whom, where that is known; for the step's record, too.
	Orders map[Order]int `json:"-"`
}

// Batch is the groups claimed for one step: the same groups whenever the step is claimed again.
type Batch struct {
	Run            RunName       `json:"run"`
	Step           Step          `json:"step"`
	TrainerVersion PolicyVersion `json:"trainer_version"` // newest version published when it was formed
	Groups         []Group       `json:"groups"`
}
